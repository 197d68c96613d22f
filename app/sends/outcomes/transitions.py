"""What follows from a verdict: the recipient's new state, its event, its counter, its step. Pure; no database.

The rules stand here and nowhere else (decisions: 6, 8 and 11, Outcomes):

    accepted   email: delivered, sms: sent      event sent       delivered + 1
    refused    email: bounced, blocks           event bounced    bounced + 1
               sms: failed, `rejected`          event failed     failed_contacts + 1
    uncertain  email: uncertain, until it has been looked into; sms: like deferred
    deferred   queued again, later and later; after the retry period
               email: bounced for now           event bounced    bounced + 1
               sms: failed, `expired`           event failed     failed_contacts + 1
    skipped    failed, with the reason          event failed     failed_contacts + 1
    too large, or a text of nothing
               failed, with the reason          event failed     failed_contacts + 1
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Literal, NamedTuple

from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.attempt_result import AttemptResult
from app.settings import Settings
from app.transports.base import DeliveryResult, Outcome

LONGEST_DELAY = 3600.0
JITTER = 0.1

# The second digit of an RFC 3463 code, in words.
BOUNCE_REASONS = {
    "1": "bad destination address",
    "2": "mailbox unavailable",
    "3": "mail system not accepting",
    "4": "network or routing trouble",
    "5": "mail protocol error",
    "6": "message content refused",
    "7": "refused by policy",
}
OTHER_REASON = "not delivered"

_random = random.SystemRandom()

Counter = Literal["delivered", "bounced", "failed_contacts"]


class Held(NamedTuple):
    """A recipient that a worker holds, as the database has it when the outcome is written."""

    id: int
    account_id: int
    uuid: str
    type: str
    group_id: int
    group_name: str
    message_id: int | None
    list_id: int | None
    contact_id: int | None
    email: str | None
    mobile: str | None
    creation_time: datetime
    attempts: int
    request_id: str
    from_address: str


class Transition(NamedTuple):
    """What is to be written for one recipient. `blocks` and `troubles` are for its address."""

    held: Held
    verdict: AttemptResult
    state: RecipientState
    step: TimelineStep
    detail: str | None
    reason: str | None = None
    due_time: datetime | None = None
    sent_time: datetime | None = None
    counter: Counter | None = None
    event: str | None = None
    extra: Mapping[str, str | bool] = MappingProxyType({})
    blocks: bool = False
    troubles: Literal["add", "forget"] | None = None


@dataclass(frozen=True, slots=True)
class RetryRules:
    """When a deferred message is tried again: `first_delay` and `period` in seconds. `uncertain_wait` is how long one
    that may have arrived is left alone."""

    first_delay: float
    period: float
    uncertain_wait: float = 900.0

    @classmethod
    def of(cls, settings: Settings) -> RetryRules:
        """Those of the settings RETRY_DELAY, RETRY_PERIOD and UNCERTAIN_WAIT."""
        return cls(settings.retry_delay, settings.retry_period, settings.uncertain_wait)

    def next_try(self, held: Held, moment: datetime) -> datetime | None:
        """The moment of the next try; None when the period is over (decisions: 8).

        The last try falls on the end of the period, however long the delays have grown by then.
        """
        end = held.creation_time + timedelta(seconds=self.period)
        if moment >= end:
            return None
        return min(moment + timedelta(seconds=self.delay(held.attempts)), end)

    def delay(self, attempts: int) -> float:
        """Seconds after try number `attempts`: the first delay, then doubling up to an hour (decisions: 11, Retries).

        A little is added at random, so that what failed together does not come back together.
        """
        longest = max(LONGEST_DELAY, self.first_delay)
        doubled = max(self.first_delay, 1.0) * 2.0 ** min(attempts - 1, 30)
        seconds = self.first_delay if attempts <= 1 else min(doubled, longest)
        return seconds * _random.uniform(1, 1 + JITTER)


def decide_transition(held: Held, verdict: AttemptResult, rules: RetryRules) -> Transition:
    """What a verdict means for the recipient that it is about."""
    if verdict.result is None:
        return _failed(held, verdict, verdict.skip or OTHER_REASON, verdict.detail)
    match verdict.result.outcome:
        case Outcome.ACCEPTED:
            return _sent(held, verdict, verdict.result)
        case Outcome.REFUSED:
            return _refused(held, verdict, verdict.result)
        case Outcome.UNCERTAIN if held.type == "email":
            return _uncertain(held, verdict, verdict.result, rules)
        case Outcome.DEFERRED | Outcome.UNCERTAIN:
            return _deferred(held, verdict, verdict.result, rules)


def _sent(held: Held, verdict: AttemptResult, result: DeliveryResult) -> Transition:
    return Transition(
        held,
        verdict,
        state=RecipientState.DELIVERED if held.type == "email" else RecipientState.SENT,
        step=TimelineStep.SENT,
        detail=result.reply,
        sent_time=verdict.moment.replace(microsecond=0),
        counter="delivered",
        event="sent",
        troubles="forget" if held.type == "email" else None,
    )


def _refused(held: Held, verdict: AttemptResult, result: DeliveryResult) -> Transition:
    if held.type == "sms":
        return _failed(held, verdict, "rejected", result.reply)
    return _bounced(held, verdict, result, temporary=False)


def _uncertain(held: Held, verdict: AttemptResult, result: DeliveryResult, rules: RetryRules) -> Transition:
    """Not even at the end of the period is it given up before it has been looked into."""
    due_time = verdict.moment + timedelta(seconds=rules.uncertain_wait)
    return Transition(
        held,
        verdict,
        state=RecipientState.UNCERTAIN,
        step=TimelineStep.UNCERTAIN,
        detail=result.reply,
        due_time=due_time,
    )


def _deferred(held: Held, verdict: AttemptResult, result: DeliveryResult, rules: RetryRules) -> Transition:
    due_time = rules.next_try(held, verdict.moment)
    if due_time is not None:
        return Transition(
            held,
            verdict,
            state=RecipientState.QUEUED,
            step=TimelineStep.DEFERRED,
            detail=result.reply,
            due_time=due_time,
        )
    if held.type == "sms":
        return _failed(held, verdict, "expired", result.reply)
    return _bounced(held, verdict, result, temporary=True)


def _bounced(held: Held, verdict: AttemptResult, result: DeliveryResult, *, temporary: bool) -> Transition:
    diagnostic = bounce_string(result)
    return Transition(
        held,
        verdict,
        state=RecipientState.BOUNCED,
        step=TimelineStep.BOUNCED,
        detail=diagnostic,
        reason=diagnostic,
        counter="bounced",
        event="bounced",
        extra={
            "bounce_reason": bounce_reason(result.status),
            "bounce_string": diagnostic,
            "is_temporary_bounce": temporary,
        },
        blocks=not temporary,
        troubles="add" if temporary else None,
    )


def _failed(held: Held, verdict: AttemptResult, reason: str, reply: str | None) -> Transition:
    return Transition(
        held,
        verdict,
        state=RecipientState.FAILED,
        step=TimelineStep.FAILED,
        detail=reply or reason,
        reason=reason,
        counter="failed_contacts",
        event="failed",
        extra={"fail_reason": reason},
    )


def bounce_string(result: DeliveryResult) -> str:
    """The other side's reply, which names its RFC 3463 code or is followed by it (specification: Recipient events)."""
    if not result.status or result.status in result.reply:
        return result.reply
    return f"{result.reply} ({result.status})".lstrip()


def bounce_reason(status: str | None) -> str:
    """The kind of a bounce in words, from its RFC 3463 code."""
    subject = (status or "").split(".")[1:2]
    return BOUNCE_REASONS.get(subject[0], OTHER_REASON) if subject else OTHER_REASON
