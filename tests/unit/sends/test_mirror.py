"""The mirror of a journal in Redis: what it has, for how long, and who waits for it (docs/crash-safety.md)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from redis import Redis
from redis.exceptions import RedisError

from app.clock import now
from app.infrastructure.redis_client import connect_redis
from app.sends.outcomes import mirror as mirror_module
from app.sends.outcomes.attempt_result import AttemptResult, Journal
from app.sends.outcomes.mirror import KEEP_SECONDS, MAX_UNMIRRORED, Mirror, delete_blocks, mirror_key, read_mirror
from app.transports.base import DeliveryResult
from tests.support.redis_process import RedisProcess, running_redis
from tests.support.servers import PATIENCE, wait_until
from tests.support.tenants import unique
from tests.support.threads import without_memory

KEY, OTHER_KEY = "a secret of these tests, long enough", "another secret, which is as long as it"


def result_of(number: int) -> AttemptResult:
    accepted = DeliveryResult.accepted(f"250 2.0.0 ann{number}@example.com is glad — ok", "2.0.0")._replace(note="note")
    return AttemptResult(number, 1, f"ann{number}@example.com", now(), accepted, rendered=7)


@pytest.fixture
def worker() -> str:
    return unique("worker")


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    with connect_redis(redis_url) as client:
        yield client


@pytest.fixture
def mirror(redis: Redis, worker: str) -> Iterator[Mirror]:
    opened = Mirror(redis, worker, KEY)
    yield opened
    opened.close()


def add(mirror: Mirror, *numbers: int) -> list[AttemptResult]:
    """Hands results to the mirror; returns them."""
    results = list(map(result_of, numbers))
    for result in results:
        mirror.add(result.recipient_id, result.line())
    return results


def blocks(redis: Redis, worker: str) -> dict[bytes, bytes]:
    return cast("dict[bytes, bytes]", redis.hgetall(mirror_key(worker)))


def mirrored(redis: Redis, worker: str, *secret_keys: str) -> list[AttemptResult]:
    return sorted(read_mirror(redis, secret_keys or (KEY,), worker).results)


def test_what_is_mirrored_is_read_as_it_was_and_tells_redis_nothing(redis: Redis, worker: str, mirror: Mirror) -> None:
    results = add(mirror, *range(40))
    wait_until(lambda: len(mirrored(redis, worker)) == 40, "all are mirrored")
    assert mirrored(redis, worker) == results
    assert mirrored(redis, worker, OTHER_KEY, KEY) == results  # SECRET_KEY was rotated since
    stored = b"".join(blocks(redis, worker).values())
    words = (b"250 2.0.0", b"@example.com", b"is glad", b"accepted")  # too long to be in ciphertext by chance
    assert not any(word in stored for word in words)
    assert 0 < redis.ttl(mirror_key(worker)) <= KEEP_SECONDS


def test_a_result_is_journalled_while_no_memory_is_left_for_the_thread(
    redis: Redis, worker: str, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one starts the thread, which then writes both."""
    journal, results = Journal(tmp_path, worker, mirror.add), [result_of(1), result_of(2)]
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", without_memory)
        journal.append(results[0])
    assert (tmp_path / f"{worker}.journal").read_bytes() == results[0].line()
    journal.append(results[1])
    wait_until(lambda: mirrored(redis, worker) == results, "both are mirrored")
    journal.close()


def test_a_block_is_deleted_once_all_of_its_results_are_in_the_database(
    redis: Redis, worker: str, mirror: Mirror
) -> None:
    add(mirror, 1, 2)
    wait_until(lambda: len(mirrored(redis, worker)) == 2, "both are mirrored")
    mirror.settle([1, 99])
    (third,) = add(mirror, 3)
    wait_until(lambda: third in mirrored(redis, worker), "the next is mirrored")
    assert {result.recipient_id for result in mirrored(redis, worker)} == {1, 2, 3}
    mirror.settle([2])
    wait_until(lambda: mirrored(redis, worker) == [third], "the first block is deleted")
    mirror.settle([3])
    wait_until(lambda: not redis.exists(mirror_key(worker)), "nothing is left")


def test_the_end_of_a_sender_leaves_what_is_not_in_the_database(
    redis: Redis, worker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("GATHER_SECONDS", "CLOSE_SECONDS"):
        monkeypatch.setattr(mirror_module, limit, PATIENCE)
    mirror = Mirror(redis, worker, KEY)
    first, _ = add(mirror, 1, 2)
    mirror.settle([2])
    mirror.close()
    assert mirrored(redis, worker) == [first]
    mirror = Mirror(redis, worker, KEY)
    mirror.close()
    assert len(blocks(redis, worker)) == 1


def test_blocks_that_were_replayed_are_deleted_and_later_ones_stay(redis: Redis, worker: str, mirror: Mirror) -> None:
    """A worker that was only suspended may go on mirroring."""
    add(mirror, 1)
    wait_until(lambda: len(mirrored(redis, worker)) == 1, "it is mirrored")
    fields = read_mirror(redis, (KEY,), worker).fields
    (second,) = add(mirror, 2)
    wait_until(lambda: len(mirrored(redis, worker)) == 2, "the second is mirrored")
    delete_blocks(redis, worker, fields)
    assert mirrored(redis, worker) == [second]


def test_what_cannot_be_read_is_left_out(redis: Redis, worker: str, mirror: Mirror) -> None:
    """Nobody but a person can have changed it, or SECRET_KEY without leaving it as a fallback."""
    results = add(mirror, 1)
    wait_until(lambda: mirrored(redis, worker) == results, "it is mirrored")
    redis.hset(mirror_key(worker), mapping={"x": "no block", "y": b"\xff"})
    assert mirrored(redis, worker) == results
    assert mirrored(redis, worker, OTHER_KEY) == []
    redis.set(mirror_key(worker), "no hash")
    with pytest.raises(RedisError):
        read_mirror(redis, (KEY,), worker)


@pytest.fixture
def own_redis() -> Iterator[RedisProcess]:
    with running_redis() as process:
        yield process


def test_a_redis_that_hangs_holds_up_no_message_for_long(own_redis: RedisProcess, worker: str) -> None:
    """Once it answers again, it gets what is not in the database by then."""
    with connect_redis(own_redis.url, wait=0.5) as impatient, connect_redis(own_redis.url) as client:
        mirror = Mirror(impatient, worker, KEY)
        with own_redis.frozen():
            results = add(mirror, *range(3 * MAX_UNMIRRORED))
            for _ in range(1000):
                mirror.await_room()  # each would take its time if it waited more than once
            mirror.settle(range(10))
        wait_until(lambda: {*results[10:]} <= {*mirrored(client, worker)}, "the others are mirrored")
        mirror.close()


def test_a_restart_of_redis_is_survived(own_redis: RedisProcess, worker: str) -> None:
    with connect_redis(own_redis.url) as client:
        mirror = Mirror(client, worker, KEY)
        add(mirror, 1)
        wait_until(lambda: len(mirrored(client, worker)) == 1, "it is mirrored")
        own_redis.kill()
        later = add(mirror, 2)
        own_redis.start()
        wait_until(lambda: later[0] in mirrored(client, worker), "the next is mirrored")
        mirror.close()


def test_a_message_is_begun_only_with_room_in_the_mirror(
    own_redis: RedisProcess, worker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room comes from Redis' answer, or when results are in the database: what else ends the wait comes too late."""
    monkeypatch.setattr(mirror_module, "HOLD_SECONDS", 2 * PATIENCE)
    with connect_redis(own_redis.url, wait=2 * PATIENCE) as client:
        mirror = Mirror(client, worker, KEY)
        with own_redis.frozen():
            add(mirror, *range(MAX_UNMIRRORED - 1))
            mirror.await_room()
            add(mirror, MAX_UNMIRRORED)
            waiting = awaiting_room(mirror)
            assert not has_room(waiting, seconds=0.3)
        assert has_room(waiting, seconds=PATIENCE)
        wait_until(lambda: len(mirrored(client, worker)) == MAX_UNMIRRORED, "all are mirrored")
        with own_redis.frozen():
            add(mirror, *range(100, 100 + MAX_UNMIRRORED))
            waiting = awaiting_room(mirror)
            assert not has_room(waiting, seconds=0.3)
            mirror.settle(range(100, 100 + MAX_UNMIRRORED))
            assert has_room(waiting, seconds=PATIENCE)
        mirror.close()


def awaiting_room(mirror: Mirror) -> threading.Thread:
    thread = threading.Thread(target=mirror.await_room)
    thread.start()
    return thread


def has_room(waiting: threading.Thread, **wait: Any) -> bool:
    waiting.join(wait["seconds"])
    return not waiting.is_alive()
