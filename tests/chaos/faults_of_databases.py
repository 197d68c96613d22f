"""Faults of Redis and of the databases, some of them by a proxy in front (proxy.py)."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator

from tests.chaos.limits import Limits
from tests.chaos.promises import Promise
from tests.chaos.record import say_mode
from tests.chaos.registry import PROCESSES, RETRIED, Strike, fault, stopped
from tests.chaos.sqlite_lock import locked
from tests.chaos.stage import Setup, Stage
from tests.support.servers import wait_until

BEHIND_PROXY = Setup(proxied="database")
"""On SQLite nothing is."""
ROUNDS = 3

# ------------------------------------------------------------------------------------------ Redis


@fault("redis-killed", Promise.RESUMING)
def redis_killed(stage: Stage, _chance: random.Random) -> None:
    """Kills the embedded Redis."""
    stage.kill(*stage.pids(PROCESSES["redis"]))


@fault("redis-flushed", Promise.LOST, Promise.STALL)
def redis_flushed(stage: Stage, chance: random.Random) -> None:
    """Redis loses all its data, several times."""
    for _ in range(5):
        stage.services.redis.flushall()
        time.sleep(chance.uniform(0.1, 0.6))


@fault("redis-stopped", Promise.ANSWER, Promise.RESUMING)
def redis_stopped(stage: Stage, _chance: random.Random) -> None:
    """Redis does not answer for eight seconds."""
    with stopped(stage, *stage.pids(PROCESSES["redis"])):
        time.sleep(8)


@fault("redis-garbage", Promise.RESUMING, Promise.LOST, Promise.STALL, setup=Setup(proxied="redis"))
def redis_garbage(stage: Stage, _chance: random.Random) -> None:
    """Each answer of Redis is replaced: by one of another type, by an error, or by bytes that cannot be read."""
    with _behaving(stage, "redis", "garbage"):
        time.sleep(8)


@contextlib.contextmanager
def _behaving(stage: Stage, peer: str, mode: str) -> Iterator[None]:
    """A peer behaves like that inside the block."""
    say_mode(stage.folder / f"{peer}.mode", mode)
    try:
        yield
    finally:
        say_mode(stage.folder / f"{peer}.mode", "take")


# ------------------------------------------------------------------------------------------ databases


@fault("postgresql-restarted", Promise.WORK, Promise.REFUSAL, only="postgresql")
def postgresql_restarted(stage: Stage, _chance: random.Random) -> None:
    """PostgreSQL stops immediately, and replays its log at the start."""
    stage.postgresql.restart_at_once()


@fault("postgresql-stopped-20", Promise.ANSWER, Promise.WORK, only="postgresql", slowly=2.0)
def postgresql_stopped_20(stage: Stage, _chance: random.Random) -> None:
    """PostgreSQL does not answer for 20 seconds."""
    with stage.postgresql.frozen():
        time.sleep(20)


@fault("postgresql-stopped-75", Promise.ANSWER, Promise.MAIL_TWICE, only="postgresql", slowly=4.0)
def postgresql_stopped_75(stage: Stage, _chance: random.Random) -> None:
    """PostgreSQL does not answer for 75 seconds, longer than a statement may take."""
    with stage.postgresql.frozen():
        time.sleep(75)


@fault("postgresql-connections-ended", Promise.WORK, Promise.CONFLICT, only="postgresql")
def postgresql_connections_ended(stage: Stage, chance: random.Random) -> None:
    """All connections are terminated, several times."""
    for _ in range(5):
        stage.postgresql.end_connections()
        time.sleep(chance.uniform(0.2, 1.5))


@fault("sqlite-locked", Promise.ANSWER, Promise.REFUSAL, only="sqlite", slowly=3.0)
def sqlite_locked(stage: Stage, _chance: random.Random) -> None:
    """Another process holds the write lock for 35 seconds, longer than any wait for it."""
    with locked(stage.data / "tms.sqlite3"):
        time.sleep(35)


def _behind_proxy(mode: str, seconds: float) -> Strike:
    """The proxy of the database behaves like that for a while."""

    def strike(stage: Stage, _chance: random.Random) -> None:
        with _behaving(stage, "database", mode):
            time.sleep(seconds)

    return strike


fault("database-slow", Promise.ANSWER, Promise.RESUMING, only="postgresql", setup=BEHIND_PROXY)(
    _behind_proxy("slow", 8)
)
fault("database-hangs", Promise.ANSWER, Promise.REFUSAL, only="postgresql", setup=BEHIND_PROXY, slowly=2.0)(
    _behind_proxy("hang", 20)
)
fault("database-cut-before-commit", Promise.WORK, Promise.CONFLICT, only="postgresql", setup=BEHIND_PROXY)(
    _behind_proxy("cut-before", 6)
)
fault("database-cut-after-commit", Promise.WORK, Promise.CONFLICT, only="postgresql", setup=BEHIND_PROXY)(
    _behind_proxy("cut-after", 6)
)


@contextlib.contextmanager
def _away(stage: Stage) -> Iterator[None]:
    """No work can be committed inside the block."""
    with _behaving(stage, "database", "away") if stage.on_postgresql else locked(stage.data / "tms.sqlite3"):
        yield


@fault(
    *("database-goes-during-post", Promise.EVENT, Promise.SPACING, Promise.STALL),
    limits=Limits(webhook=RETRIED),
    setup=BEHIND_PROXY,
)
def database_goes_during_post(stage: Stage, chance: random.Random) -> None:
    """The database goes away while a receiver has read a request and not answered it, three times; it comes back
    after the answer."""
    for _ in range(ROUNDS):
        before = stage.requests_to_receiver()
        with _behaving(stage, "receiver", "wait"):
            wait_until(lambda before=before: stage.requests_to_receiver() > before, "a request waits for its answer")
            with contextlib.ExitStack() as away:
                away.enter_context(_away(stage))
                time.sleep(chance.uniform(0, 0.5))
                say_mode(stage.folder / "receiver.mode", "take")
                time.sleep(2)
