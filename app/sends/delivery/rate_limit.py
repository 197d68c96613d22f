"""Rate limit of text messages per sender: `messages_per_second`, a token bucket in Redis that all workers share.

The messages of one second may be sent at once, then as many as the rate allows. Messages beyond it go back into the
queue, each with the due time at which the rate allows it: these slots are reserved one after the other, so that a
backlog of a hundred thousand is claimed about once per message and delays no other sender. While Redis does not answer,
no rate is enforced. No Lua script counts, because the Redis in Python (app/launcher/python_redis.py) runs none.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, cast

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import RedisError, WatchError

from app.clock import now
from app.recipients.reasons import WaitReason
from app.sends.delivery.compose import PreparedRecipient
from app.sends.delivery.requirements import SenderKey, Senders, sender_key
from app.sends.delivery.transmission_counts import count_deferred

logger = logging.getLogger(__name__)

EXPIRE_AFTER = 86_400
"""Seconds after which the bucket of an idle sender is deleted."""

MAX_TRIES = 50
"""Maximum of attempts to reserve while other workers change the bucket."""


class Bucket(NamedTuple):
    """The token bucket of a sender, as times of Redis' clock. Its fields are those of the hash in Redis."""

    upcoming: float = 0.0
    """When the bucket will be refilled to its level before the last message."""
    turn: float = 0.0
    """The last slot that was reserved for a postponed message."""


def reserve(bucket: Bucket, rate: float, count: int, clock: float) -> tuple[Bucket, int]:
    """The bucket after `count` more messages, and how many of them may go at once; slots are reserved for the rest."""
    step, burst = 1 / rate, max(rate, 1.0)
    upcoming, allowed = max(bucket.upcoming, clock), 0
    while allowed < count and upcoming - clock <= (burst - 1) * step:
        upcoming, allowed = upcoming + step, allowed + 1
    return Bucket(upcoming, max(bucket.turn, clock) + (count - allowed) * step), allowed


def rate_limited(redis: Redis, senders: Senders, recipients: Sequence[PreparedRecipient]) -> dict[int, datetime]:
    """The recipients that must wait, with their new due times by id."""
    rates = {key: one.messages_per_second for key, one in senders.items() if one.messages_per_second is not None}
    by_sender: dict[SenderKey, list[int]] = defaultdict(list)
    for recipient in recipients if rates else ():
        if recipient.claimed.type == "sms" and sender_key(recipient) in rates:
            by_sender[sender_key(recipient)].append(recipient.id)
    due_times: dict[int, datetime] = {}
    for sender, ids in by_sender.items():
        due_times |= _due_times(redis, sender, rates[sender], ids)
    live = [one for one in recipients if one.id in due_times and not one.compiled.send.is_test]
    count_deferred([one.claimed for one in live], WaitReason.RATE_LIMIT)
    return due_times


def allowed_now(redis: Redis, key: str, rate: float, count: int) -> int:
    """How many of that many messages may be sent now under a rate that all workers share."""
    try:
        return _reserve(redis, key, rate, count)[0]
    except RedisError as error:
        logger.warning("the rate of %s is not enforced: Redis does not answer", key, extra={"error": str(error)})
        return count


def _due_times(redis: Redis, sender: SenderKey, rate: float, ids: Sequence[int]) -> dict[int, datetime]:
    try:
        allowed, wait = _reserve(redis, f"tms:sender:{sender[0]}:{sender[1]}", rate, len(ids))
    except RedisError as error:
        logger.warning("the rate limit of a sender is not enforced: Redis does not answer", extra={"error": str(error)})
        return {}
    first = now() + timedelta(seconds=wait)
    return {recipient_id: first + timedelta(seconds=n / rate) for n, recipient_id in enumerate(ids[allowed:])}


def _reserve(redis: Redis, key: str, rate: float, count: int) -> tuple[int, float]:
    """How many may be sent at once, and the seconds until the first slot of the others.

    Optimistic locking: a worker whose bucket was changed by another one meanwhile reserves again.
    """
    with redis.pipeline() as commands:
        for _ in range(MAX_TRIES):
            with contextlib.suppress(WatchError):
                return _reserve_unless_changed(commands, key, rate, count)
    raise RedisError(f"{key} is changed all the time")


def _reserve_unless_changed(commands: Pipeline, key: str, rate: float, count: int) -> tuple[int, float]:
    commands.watch(key)  # type: ignore[no-untyped-call]
    stored = cast("list[bytes | None]", commands.hmget(key, Bucket._fields))
    seconds, microseconds = commands.time()
    clock = seconds + microseconds / 1e6
    before = Bucket(*(float(value or 0) for value in stored))
    after, allowed = reserve(before, rate, count, clock)
    commands.multi()
    commands.hset(key, mapping={name: f"{value:.6f}" for name, value in after._asdict().items()})
    commands.expire(key, math.ceil(after.turn - clock) + EXPIRE_AFTER)
    commands.execute()
    return allowed, max(before.turn, clock) + 1 / rate - clock
