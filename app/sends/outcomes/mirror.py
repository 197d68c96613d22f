"""The mirror of a sender's journal in Redis, for the case that its machine is lost with the journal.

A sender on PostgreSQL hands each line of its journal to the mirror, whose thread writes those that have gathered in one
pipeline. There is one hash for each worker, whose fields are such blocks of lines, encrypted as secrets in the database
are: Redis can read nothing about people. A block is deleted, in a later pipeline, when all of its results are in the
database. Nobody waits for Redis, except that a message is begun a moment later while many results are not mirrored
yet. Whoever recovers the worker's leases replays what is left (app/sends/outcomes/recovery.py).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from redis import Redis
from redis.exceptions import RedisError

from app.secret_keys import SecretKeys, SecretUnreadable, decrypt, encrypt
from app.sends.outcomes.attempt_result import AttemptResult, parse_lines

logger = logging.getLogger(__name__)

ENOUGH = 16
"""Results that are written without waiting for more."""
GATHER_SECONDS = 0.05
"""Seconds that a result waits for others: what is in the database by then is never mirrored."""
MAX_UNMIRRORED = 25
"""With so many results that are not mirrored, no further message is begun while Redis is quick."""
HOLD_SECONDS = 0.02
"""Seconds that the beginning of a message waits. A Redis that takes longer is slow, and not waited for until it is
quick again."""
RETRY_SECONDS = 1.0
"""Seconds before a Redis that failed is tried again."""
KEEP_SECONDS = 3 * 86_400
"""Seconds after which a mirror is deleted that nobody has recovered or extended."""
CLOSE_SECONDS = 2.0
"""Seconds that the end of a sender waits for the last pipeline."""
NO_BLOCK = -1
"""The number of none."""


def mirror_key(worker: str) -> str:
    """The key of a worker's mirror."""
    return f"tms:results:{worker}"


class _Pipeline(NamedTuple):
    """What is written at once: a block of lines by recipient, and the numbers of blocks to delete."""

    number: int
    lines: dict[int, bytes]
    settled: list[int]


class Mirror:
    """The mirror that this process writes. Its thread alone uses Redis."""

    def __init__(self, redis: Redis, worker: str, secret_key: str) -> None:
        self._pool = redis.connection_pool
        self._key, self._secret_key = mirror_key(worker), secret_key
        self._connection: Any = None
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._work, self._room = threading.Condition(self._lock), threading.Condition(self._lock)
        self._waiting: dict[int, bytes] = {}
        self._in_pipeline = NO_BLOCK
        """The number of the block that Redis has not answered for."""
        self._blocks: dict[int, int] = {}
        """Recipient -> number of the block with its result, until it is in the database."""
        self._unsettled: dict[int, int] = {}
        """Number of a block -> how many of its results are not in the database."""
        self._settled: list[int] = []
        """The numbers of blocks to delete."""
        self._is_slow = self._is_away = self._is_closed = False
        self._thread: threading.Thread | None = None
        """Started by the first result."""

    def add(self, recipient_id: int, line: bytes) -> None:
        """Takes a line of the journal. Raises nothing."""
        with self._lock:
            self._waiting[recipient_id] = line
            if self._thread is None:
                self._start()
            if len(self._waiting) in (1, ENOUGH):
                self._work.notify()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="mirror", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no memory is left for it: the next result starts one
            if not self._is_away:
                logger.warning("results are not mirrored: %s", error)
            self._is_away = self._is_slow = True
            return
        self._thread = thread

    def settle(self, recipient_ids: Iterable[int]) -> None:
        """The results of these recipients are in the database."""
        with self._lock:
            for recipient_id in recipient_ids:
                if self._waiting.pop(recipient_id, None) is None:
                    self._settle_in_block(self._blocks.pop(recipient_id, None))
            self._room.notify_all()
            if self._settled:
                self._work.notify()

    def _settle_in_block(self, number: int | None) -> None:
        if number is None:
            return
        self._unsettled[number] -= 1
        if not self._unsettled[number]:
            del self._unsettled[number]
            self._settled.append(number)

    def await_room(self) -> None:
        """Called before a message is begun: waits for a moment while many results are not mirrored."""
        if self._has_room():
            return
        with self._lock:
            self._is_slow = not self._room.wait_for(self._has_room, HOLD_SECONDS) or self._is_slow

    def _has_room(self) -> bool:
        in_pipeline = self._unsettled.get(self._in_pipeline, 0)
        return len(self._waiting) + in_pipeline < MAX_UNMIRRORED or self._is_slow

    def close(self) -> None:
        """Writes what is left, unless Redis is away."""
        with self._lock:
            self._is_closed = True
            self._work.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while self._await_work():
            pipeline = self._next_pipeline()
            commands, began = self._commands(pipeline), time.monotonic()
            if not commands:
                continue
            try:
                self._write(commands)
            except Exception as error:
                self._after_failure(pipeline, error)
            else:
                self._after_success(time.monotonic() - began)
        self._disconnect()

    def _await_work(self) -> bool:
        """Whether there is anything to write; False at the end."""
        with self._lock:
            if self._is_away:
                self._work.wait_for(lambda: self._is_closed, RETRY_SECONDS)
            self._work.wait_for(lambda: self._is_closed or self._waiting or self._settled)
            if not self._is_closed:
                self._work.wait_for(lambda: self._is_closed or len(self._waiting) >= ENOUGH, GATHER_SECONDS)
            return not self._is_closed or bool((self._waiting or self._settled) and not self._is_away)

    def _next_pipeline(self) -> _Pipeline:
        with self._lock:
            pipeline = _Pipeline(next(self._numbers), self._waiting, self._settled)
            self._waiting, self._settled, self._in_pipeline = {}, [], pipeline.number
            if pipeline.lines:
                self._blocks.update(dict.fromkeys(pipeline.lines, pipeline.number))
                self._unsettled[pipeline.number] = len(pipeline.lines)
        return pipeline

    def _commands(self, pipeline: _Pipeline) -> list[tuple[Any, ...]]:
        """Commands that are answered with numbers; none if all was settled while it gathered."""
        commands: list[tuple[Any, ...]] = []
        if pipeline.lines:
            block = encrypt(self._secret_key, b"".join(pipeline.lines.values()).decode())
            commands += [("HSET", self._key, pipeline.number, block), ("EXPIRE", self._key, KEEP_SECONDS)]
        if pipeline.settled:
            commands.append(("HDEL", self._key, *pipeline.settled))
        return commands

    def _write(self, commands: Sequence[tuple[Any, ...]]) -> None:
        """Writes to a connection of its own: the library's pipelines take three times as long."""
        self._connection = self._connection or self._pool.get_connection()
        self._connection.send_packed_command(self._connection.pack_commands(commands))
        for _ in commands:
            if not isinstance(self._connection.read_response(), int):
                raise RedisError("its answer is no number")

    def _after_success(self, seconds: float) -> None:
        with self._lock:
            was_away, self._is_away, self._in_pipeline = self._is_away, False, NO_BLOCK
            self._is_slow = self._is_slow and seconds > HOLD_SECONDS
            self._room.notify_all()
        if was_away:
            logger.info("results are mirrored in Redis again")

    def _after_failure(self, pipeline: _Pipeline, error: Exception) -> None:
        """Keeps what is not in the database by now. The block may have been written, and is deleted later."""
        self._disconnect()
        with self._lock:
            left = {key: line for key, line in pipeline.lines.items() if self._blocks.get(key) == pipeline.number}
            for recipient_id in left:
                del self._blocks[recipient_id]
            self._unsettled.pop(pipeline.number, None)
            self._waiting = {**left, **self._waiting}
            self._settled = [*dict.fromkeys([*pipeline.settled, *self._settled, pipeline.number])]
            was_away, self._is_away, self._is_slow, self._in_pipeline = self._is_away, True, True, NO_BLOCK
            self._room.notify_all()
        if not was_away:
            logger.warning("results are not mirrored: Redis does not answer: %s", error)

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(RedisError, OSError):
                self._connection.disconnect()
                self._pool.release(self._connection)
            self._connection = None


class MirroredResults(NamedTuple):
    """What is left in the mirror of a worker: the results, and the fields of their blocks."""

    results: list[AttemptResult]
    fields: list[bytes]


def read_mirror(redis: Redis, secret_keys: SecretKeys, worker: str) -> MirroredResults:
    """The results that a worker had mirrored and may not have written to the database. Raises `RedisError`."""
    try:
        stored = dict[bytes, bytes](cast("Any", redis.hgetall(mirror_key(worker))))
    except (TypeError, ValueError) as error:
        raise RedisError(f"its answer is no hash: {error}") from error
    results: list[AttemptResult] = []
    for block in stored.values():
        try:
            results += parse_lines(decrypt(secret_keys, block.decode("ascii")).encode())
        except (SecretUnreadable, AttributeError, ValueError):
            logger.error("results of a dead worker cannot be read in Redis", extra={"worker": worker})
    return MirroredResults(results, list(stored))


def delete_blocks(redis: Redis, worker: str, fields: Iterable[bytes]) -> None:
    """Deletes blocks whose results are in the database. Those that stay are deleted after some days."""
    with contextlib.suppress(RedisError):
        redis.hdel(mirror_key(worker), *fields)
