"""How fast a sender of text messages may send: `messages_per_second`, counted in Redis so that all workers share it.

Up to a second's worth goes at once, then as many as the rate allows. What is too much goes back into the queue, due
when its turn will be: the turns of one sender are handed out one after the other, so that a backlog of a hundred
thousand is looked at about once per message and holds up nobody else's. While Redis does not answer no rate is kept.
No script counts them, because the Redis in Python (app/launcher/python_redis.py) runs none.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, cast

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import RedisError, WatchError
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.models import SmsSender
from app.sends.delivery.load import PreparedRecipient

logger = logging.getLogger(__name__)

Sender = tuple[int, str]
"""Account and address."""

FORGET_AFTER = 86_400
"""Seconds after which the turns of a sender that rests are forgotten."""

TRIES = 50
"""How often a worker counts again because another one has counted in between."""


class BucketState(NamedTuple):
    """What a sender has used up, as times of Redis' clock."""

    upcoming: float = 0.0
    """When the bucket is as full again as it was before the last message."""
    turn: float = 0.0
    """The last turn that was handed out."""


def take(taken: BucketState, rate: float, count: int, clock: float) -> tuple[BucketState, int]:
    """What is used up with `count` messages more, and how many of them may go at once; the others get turns."""
    step, burst = 1 / rate, max(rate, 1.0)
    upcoming, allowed = max(taken.upcoming, clock), 0
    while allowed < count and upcoming - clock <= (burst - 1) * step:
        upcoming, allowed = upcoming + step, allowed + 1
    return BucketState(upcoming, max(taken.turn, clock) + (count - allowed) * step), allowed


def rates_of(session: Session, parcels: Sequence[PreparedRecipient]) -> dict[Sender, float]:
    """The rates of those senders of these parcels that have one; no select where there is no text message."""
    senders = {_sender(parcel) for parcel in parcels if parcel.recipient.type == "sms"}
    if not senders:
        return {}
    statement = select(SmsSender.account_id, SmsSender.address, SmsSender.messages_per_second).where(
        SmsSender.account_id.in_({account for account, _ in senders}),
        SmsSender.address.in_({address for _, address in senders}),
        SmsSender.messages_per_second.is_not(None),
    )
    return {(account, address): rate for account, address, rate in session.execute(statement) if rate is not None}


def too_fast(redis: Redis, rates: Mapping[Sender, float], parcels: Iterable[PreparedRecipient]) -> dict[int, datetime]:
    """Those of the parcels that must wait: recipient id -> when it is due again."""
    waiting: dict[Sender, list[int]] = defaultdict(list)
    for parcel in parcels:
        if parcel.recipient.type == "sms" and _sender(parcel) in rates:
            waiting[_sender(parcel)].append(parcel.recipient.id)
    later: dict[int, datetime] = {}
    for sender, ids in waiting.items():
        later |= _turns(redis, sender, rates[sender], ids)
    return later


def _turns(redis: Redis, sender: Sender, rate: float, ids: Sequence[int]) -> dict[int, datetime]:
    try:
        allowed, wait = _count(redis, f"tms:sender:{sender[0]}:{sender[1]}", rate, len(ids))
    except RedisError as error:
        logger.warning("the rate of a sender is not kept: Redis does not answer", extra={"error": str(error)})
        return {}
    first = now() + timedelta(seconds=wait)
    return {one: first + timedelta(seconds=turn / rate) for turn, one in enumerate(ids[allowed:])}


def _count(redis: Redis, key: str, rate: float, count: int) -> tuple[int, float]:
    """How many may go at once, and the seconds until the first turn of the others. Two workers never count the same
    message: who finds that another one has counted meanwhile counts again."""
    with redis.pipeline() as commands:
        for _ in range(TRIES):
            with contextlib.suppress(WatchError):
                return _count_unless_changed(commands, key, rate, count)
    raise RedisError(f"{key} changes all the time")


def _count_unless_changed(commands: Pipeline, key: str, rate: float, count: int) -> tuple[int, float]:
    commands.watch(key)  # type: ignore[no-untyped-call]
    stored = cast("list[bytes | None]", commands.hmget(key, BucketState._fields))
    seconds, microseconds = commands.time()
    clock = seconds + microseconds / 1e6
    before = BucketState(*(float(value or 0) for value in stored))
    after, allowed = take(before, rate, count, clock)
    commands.multi()
    commands.hset(key, mapping={name: f"{value:.6f}" for name, value in after._asdict().items()})
    commands.expire(key, math.ceil(after.turn - clock) + FORGET_AFTER)
    commands.execute()
    return allowed, max(before.turn, clock) + 1 / rate - clock


def _sender(parcel: PreparedRecipient) -> Sender:
    return parcel.recipient.account_id, parcel.letter.send.from_address
