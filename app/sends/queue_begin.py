"""Where the send queue begins: the times before which the scheduler has found nothing in it.

A backup or a long report keeps the entries that were settled meanwhile in the indexes of the queue, and who begins at
their first entry reads past all of them (docs/decisions/015-send-queue-apart.md#a-snapshot-held-elsewhere). Processes
that go on remember how far they are. One that looks once, such as `flask status`, asks for what the scheduler
remembers, which is in Redis. Where nothing is there, it reads from the first entry on.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple, cast

import orjson
from redis import Redis
from redis.exceptions import RedisError

REDIS_KEY = "tms:send_queue:begin"
KEEP_SECONDS = 60
"""Seconds for which it counts, should the scheduler have stopped."""
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)


class QueueBegin(NamedTuple):
    """No entry that is due has become ready before `ready`, and no lease that still stands ends before `lease`."""

    ready: datetime = BEGINNING
    lease: datetime = BEGINNING


def publish_begin(redis: Redis, begin: QueueBegin) -> None:
    """Tells other processes. Without Redis they read more."""
    with suppress(RedisError):
        redis.set(REDIS_KEY, orjson.dumps([*begin]), ex=KEEP_SECONDS)


def known_begin(redis: Redis) -> QueueBegin:
    """What was told last, within the time for which it counts."""
    try:
        stored = cast("bytes | None", redis.get(REDIS_KEY))
    except RedisError:
        return QueueBegin()
    return QueueBegin(*map(datetime.fromisoformat, orjson.loads(stored))) if stored else QueueBegin()
