"""The faults, each with what must be reached. A fault is over when its function returns; by then it is healed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.sends.delivery.claim import LEASE
from tests.chaos.limits import Limits
from tests.chaos.record import say_mode
from tests.chaos.stage import hooked
from tests.cluster import verdict
from tests.cluster.engines import CONSENSUS, DATABASES
from tests.cluster.stage import API_HOSTS, SENDER_HOSTS, ClusterStage
from tests.cluster.verdict import Judge
from tests.support.next_release import copy_code, write_next_migrations
from tests.support.servers import PATIENCE, wait_until

Strike = Callable[[ClusterStage, random.Random], None]

ANSWERED = 8.0
"""The longest answer, in seconds."""
HELD = 20.0
"""Seconds for which a fault lasts that the cluster does not end."""
MANY = 400
"""How many people each account sends to just before, for senders at their full rate."""
TAKEN_OVER = 100.0
"""Seconds after which a lease of a webhook that another host held has ended (docs/run.md#stopping)."""
STEP = 30
"""Seconds by which a clock is wrong."""
COMPARED = 75.0
"""Seconds within which each process has compared its clock with the database's."""
USUAL = Limits(answering=ANSWERED, accepting=40.0, sending=40.0, webhook=40.0)
IN_FLIGHT = Limits(
    doubles_in_flight=True, stops_senders=True, answering=ANSWERED, accepting=40.0, sending=40.0, webhook=TAKEN_OVER
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, with what must be reached, in words for the table and as judges."""

    name: str
    strike: Strike
    must: str
    judges: Sequence[Judge] = ()
    limits: Limits = USUAL
    backlog: int = 0
    slowly: float = 2.0
    rest: float = PATIENCE
    through_haproxy: bool = False
    """Whether the service reaches PostgreSQL and Redis by a HAProxy beside it."""
    prepare: Callable[[ClusterStage], None] = lambda _stage: None
    """What is done before the service starts."""


FAULTS: dict[str, Fault] = {}


def fault(name: str, must: str, *judges: Judge, **options: object) -> Callable[[Strike], Strike]:
    """Registers a function under its name in the suite."""

    def add(strike: Strike) -> Strike:
        FAULTS[name] = Fault(name, strike, must, judges, **options)  # type: ignore[arg-type]
        return strike

    return add


def calm(_stage: ClusterStage, _chance: random.Random) -> None:
    """Nothing happens: what breaks here is always broken."""
    time.sleep(5)


FAULTS["calm"] = Fault("calm", calm, "no 503", (verdict.fails_never,))

# ------------------------------------------------------------------------------------------ PostgreSQL

SECONDS_OF_CUT, SECONDS_OF_CRASH = 20.0, 10.0
CUT = "lost 0, doubled 0, at most 20 s of 503, no answer over 8 s"


@fault("primary-cut", CUT, verdict.refuses_at_most(SECONDS_OF_CUT), verdict.answers_within(ANSWERED))
@fault(
    *("primary-cut-behind-haproxy", CUT, verdict.refuses_at_most(SECONDS_OF_CUT), verdict.answers_within(ANSWERED)),
    through_haproxy=True,
)
def primary_cut(stage: ClusterStage, _chance: random.Random) -> None:
    """The network of the primary is cut until another one has taken its place and accepts commits."""
    former = stage.engines.primary()
    stage.network.cut(former)
    wait_until(lambda: stage.engines.has_primary_besides(former), "a standby is promoted")
    time.sleep(HELD / 2)
    stage.healed = time.time()
    stage.network.heal(former)


PLANNED = "lost 0, doubled 0, no 503 but for commits in flight"


@fault("switchover", PLANNED, verdict.refuses_commits_alone, verdict.answers_within(ANSWERED))
@fault("switchover-behind-haproxy", PLANNED, verdict.refuses_commits_alone, through_haproxy=True)
def switchover(stage: ClusterStage, _chance: random.Random) -> None:
    """The synchronous standby becomes the primary, as an operator asks for it."""
    stage.engines.switch_over(stage.engines.synchronous_standby())


@fault("postmaster-killed", "lost 0, doubled 0, at most 10 s of 503", verdict.refuses_at_most(SECONDS_OF_CRASH))
def postmaster_killed(stage: ClusterStage, _chance: random.Random) -> None:
    """kill -9 of PostgreSQL's main process at the primary."""
    os.kill(stage.engines.postmaster(stage.engines.primary()), signal.SIGKILL)


@fault("standbys-gone", "503 within 8 s and no 202; goes on by itself", verdict.accepts_nothing)
def standbys_gone(stage: ClusterStage, _chance: random.Random) -> None:
    """Both standbys are cut off."""
    standbys = [host for host in DATABASES if host != stage.engines.primary()]
    stage.network.cut(*standbys)
    stage.struck = time.time()
    time.sleep(HELD)
    stage.healed = time.time()
    stage.network.heal(*standbys)


# ------------------------------------------------------------------------------------------ hosts of the service


CLAIMED = 100
"""A sender host has claimed so many messages when it loses its database, four times what it may double."""
UNWRITTEN = 1.0
"""Seconds for which it still sends before it is lost."""


@fault(
    *("sender-host-cut", "lost 0, at most 25 doubled beyond what was in flight"),
    limits=replace(IN_FLIGHT, doubled=25),
    backlog=MANY,
    slowly=4.0,
)
def sender_host_cut(stage: ClusterStage, _chance: random.Random) -> None:
    """A sender host is lost for good, at its full rate, with results that it could not write to the database any
    more."""
    host = SENDER_HOSTS[0]
    wait_until(lambda: stage.claimed_by(host) >= CLAIMED, "the sender host has claimed enough to lose")
    stage.network.split(host, DATABASES)
    time.sleep(UNWRITTEN)
    stage.network.cut(host)
    stage.kills.append(time.time())
    stage.lose(host)
    time.sleep(HELD)
    stage.network.heal(host)
    stage.network.join(host, DATABASES)


@fault(
    *("api-host-cut", "no 5xx beyond the requests in flight", verdict.fails_in_flight_alone),
    limits=Limits(cuts_requests=True, loses_hosts=True, answering=ANSWERED, accepting=40.0, sending=40.0, webhook=40.0),
)
def api_host_cut(stage: ClusterStage, _chance: random.Random) -> None:
    """The network of an API host is cut for a while."""
    stage.network.cut(API_HOSTS[0])
    time.sleep(HELD)
    stage.healed = time.time()
    stage.network.heal(API_HOSTS[0])


PROMPT = "no 5xx; from 202 to DATA at most 1 s at p95 after 10 s"


@fault("redis-master-killed", PROMPT, verdict.fails_never, verdict.sends_promptly)
@fault(
    *("redis-master-killed-behind-haproxy", PROMPT, verdict.fails_never, verdict.sends_promptly), through_haproxy=True
)
def redis_master_killed(stage: ClusterStage, _chance: random.Random) -> None:
    """kill -9 of the master of Redis, which comes back when another one has taken its place."""
    host = stage.engines.master()
    stage.engines.kill(host, "redis")
    wait_until(lambda: stage.engines.has_master_besides(host), "a replica is promoted")
    time.sleep(HELD)
    stage.engines.start_redis(host)


@fault(
    *("split-from-database", "leases are taken over once, doubled 0 beyond what was in flight"),
    limits=IN_FLIGHT,
    backlog=MANY // 2,
    slowly=4.0,
)
def split_from_database(stage: ClusterStage, _chance: random.Random) -> None:
    """A sender host does not reach the database for longer than its leases last, and reaches everybody else."""
    stage.network.split(SENDER_HOSTS[0], DATABASES)
    stage.kills.append(time.time())
    time.sleep(LEASE + HELD)
    stage.healed = time.time()
    stage.network.join(SENDER_HOSTS[0], DATABASES)


def _give_clock(stage: ClusterStage) -> None:
    """A sender host gets a clock of its own, which is right at first: with a wrong one it would not start."""
    _set_clock(stage, 0)
    stage.host_settings[SENDER_HOSTS[0]] |= hooked(stage.folder, ["host-clock"])


def _set_clock(stage: ClusterStage, ahead: int) -> None:
    say_mode(stage.folder / "clock", str(ahead))


@fault("clock-wrong", "it says so, lost 0, doubled 0", verdict.fails_never, prepare=_give_clock, slowly=4.0)
def clock_wrong(stage: ClusterStage, _chance: random.Random) -> None:
    """The clock of a sender host is 30 s ahead."""
    _set_clock(stage, STEP)
    time.sleep(COMPARED)
    lines = stage.lines_of(stage.pids_of(SENDER_HOSTS[0]))
    if not any("clock" in str(line.get("message")) for line in lines):
        stage.complaints.append("nobody says that the clock is wrong")
    _set_clock(stage, 0)


def _start_fewer(stage: ClusterStage) -> None:
    """One worker for all queues on each sender host: each process starts twice, which takes the machine its time."""
    for host in SENDER_HOSTS:
        stage.hosts[host] = [("jobs.worker",), ("jobs.schedule",)]
    stage.workers = len(SENDER_HOSTS) * 2


@fault("upgrade", "0 refused", verdict.fails_never, prepare=_start_fewer, slowly=6.0)
def upgrade(stage: ClusterStage, _chance: random.Random) -> None:
    """An upgrade to a release with migrations of both phases, by the commands of docs/upgrade.md, host by host."""
    code = copy_code(stage.folder)
    write_next_migrations(code / "app" / "db" / "migrations" / "versions")
    stage.install(code)
    stage.run_command("db", "upgrade", "--expand")
    for host, programs in stage.hosts.items():
        told = stage.run_command("reload", host=host)
        if told.count("runs the installed code") != len(programs):
            stage.complaints.append(f"on {host} not all processes were reloaded: {told}")
    stage.run_command("db", "upgrade", "--contract")
    stage.know_next_release()


# ------------------------------------------------------------------------------------------ etcd


@fault("etcd-without-quorum", "goes on or refuses, lost 0, doubled 0", verdict.answers_within(ANSWERED))
def etcd_without_quorum(stage: ClusterStage, _chance: random.Random) -> None:
    """Two of three hosts of etcd are cut off, for longer than the lock of the primary lasts."""
    stage.network.cut(*CONSENSUS[1:])
    time.sleep(2 * HELD)
    stage.healed = time.time()
    stage.network.heal(*CONSENSUS[1:])
