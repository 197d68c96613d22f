"""How fast a sender of text messages may send: `messages_per_second`, counted in Redis so that all workers share it.

Up to a second's worth goes at once, then as many as the rate allows. What is too much goes back into the queue, due
when its turn will be: the turns of one sender are handed out one after the other, so that a backlog of a hundred
thousand is looked at about once per message and holds up nobody else's. While Redis does not answer no rate is kept.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import cast

from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.models import SmsSender
from app.sends.load import Parcel

logger = logging.getLogger(__name__)

Sender = tuple[int, str]
"""Account and address."""

FORGET_AFTER = 86_400
"""Seconds after which the turns of a sender that rests are forgotten."""

# `next` is the time at which the bucket is as full again as it was before the last message; `turn` the last turn that
# was handed out. Redis runs a script as one step, so two workers never count the same message.
SCRIPT = """
local rate, count = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local step, burst = 1 / rate, math.max(rate, 1)
local upcoming = tonumber(redis.call('HGET', KEYS[1], 'next') or '0')
local turn = tonumber(redis.call('HGET', KEYS[1], 'turn') or '0')
local allowed = 0
upcoming = math.max(upcoming, now)
while allowed < count and upcoming - now <= (burst - 1) * step do
  upcoming, allowed = upcoming + step, allowed + 1
end
turn = math.max(turn, now)
local begin = turn + step
turn = turn + (count - allowed) * step
redis.call('HSET', KEYS[1], 'next', string.format('%.6f', upcoming), 'turn', string.format('%.6f', turn))
redis.call('EXPIRE', KEYS[1], math.ceil(turn - now) + ARGV[3])
return {allowed, math.floor((begin - now) * 1000)}
"""


def rates_of(session: Session, parcels: Sequence[Parcel]) -> dict[Sender, float]:
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


def too_fast(redis: Redis, rates: Mapping[Sender, float], parcels: Iterable[Parcel]) -> dict[int, datetime]:
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
    key = f"tms:sender:{sender[0]}:{sender[1]}"
    try:
        answer = redis.eval(SCRIPT, 1, key, str(rate), str(len(ids)), str(FORGET_AFTER))
    except RedisError as error:
        logger.warning("the rate of a sender is not kept: Redis does not answer", extra={"error": str(error)})
        return {}
    allowed, milliseconds = cast("list[int]", answer)
    first = now() + timedelta(milliseconds=milliseconds)
    return {one: first + timedelta(seconds=turn / rate) for turn, one in enumerate(ids[allowed:])}


def _sender(parcel: Parcel) -> Sender:
    return parcel.recipient.account_id, parcel.letter.send.from_address
