"""What follows from an attempt result: the recipient's new state, its event, its counter, its step; and what a bounce
is.

Pure; no database. The rules stand here and nowhere else (docs/delivery.md#recipient-states).
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from app.events.outbox import Payload
from app.recipients.row import RecipientRow, step_row
from app.recipients.states import UNSETTLED_STATES, FailReason, RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.refusals import blocks_address, blocks_number, refuses_address
from app.settings import Settings
from app.transports.base import DeliveryResult, Outcome

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
_EXPIRED = re.compile(r"\bEXPIRED\b", re.IGNORECASE)

MAY_STILL_BOUNCE = (
    *(RecipientState.DELIVERED, RecipientState.UNCERTAIN, RecipientState.QUEUED),
    *(RecipientState.PAUSED, RecipientState.HELD),
)
"""States of an attempted email that a DSN may turn into a bounce. One that is uncertain, or queued or paused after an
attempt, had arrived at a mail server whose answer was lost; one that is held was sent since the backup was made."""
COUNTED_AS_DELIVERED = (RecipientState.DELIVERED, RecipientState.SENT)


class Bounce(NamedTuple):
    """A bounce, whether the relay, a DSN or a gateway's receipt reported it. A soft one blocks its address only after
    several in a row; `blocks` is whether it blocks its address at once."""

    diagnostic: str
    reason: str
    is_soft: bool
    blocks: bool

    @property
    def event_fields(self) -> dict[str, str | bool]:
        """The fields of the event `bounced` (docs/webhooks.md#events)."""
        return {
            "bounce_reason": self.reason,
            "bounce_string": self.diagnostic,
            "is_temporary_bounce": self.is_soft,
        }

    @classmethod
    def from_result(cls, result: DeliveryResult, *, is_soft: bool = False) -> Bounce:
        """The bounce of a mail that was refused; a soft one if it could not be sent until the end of the retry
        period."""
        diagnostic, blocks = bounce_string(result.reply, result.status), not is_soft and refuses_address(result)
        return cls(diagnostic, bounce_reason(result.status), is_soft, blocks)

    @classmethod
    def from_dsn(cls, diagnostic: str, status: str | None) -> Bounce:
        """The bounce that a DSN, or an event of a relay, reports."""
        is_soft = (status or "").startswith("4")
        blocks = not is_soft and blocks_address(diagnostic, status)
        return cls(bounce_string(diagnostic, status), bounce_reason(status), is_soft, blocks)

    @classmethod
    def from_receipt(cls, detail: str) -> Bounce:
        """The bounce that the receipt of a text message reports."""
        if _EXPIRED.search(detail):
            return cls(detail, "delivery time expired", is_soft=True, blocks=False)
        return cls(detail, OTHER_REASON, is_soft=False, blocks=blocks_number(detail))


def bounce_string(reply: str, status: str | None) -> str:
    """The other side's reply, which names its RFC 3463 code or is followed by it (docs/webhooks.md#events)."""
    if not status or status in reply:
        return reply
    return f"{reply} ({status})".lstrip()


def bounce_reason(status: str | None) -> str:
    """The kind of a bounce in words, from its RFC 3463 code."""
    subject = (status or "").split(".")[1:2]
    return BOUNCE_REASONS.get(subject[0], OTHER_REASON) if subject else OTHER_REASON


MAX_DELAY = 3600.0
JITTER = 0.1

_random = random.SystemRandom()
# With 421 a server closes the connection, and with a 5xx that counts as a deferral it refuses our login.
_DEFERS = re.compile(r"4(?!21)\d\d\b")

Counter = Literal["delivered", "bounced", "failed_contacts"]
EventName = Literal["sent", "bounced", "failed"]


class Transition(NamedTuple):
    """All that is to be written for one recipient, with the rows that it makes. `blocks_address` and `soft_bounces` are
    for its address."""

    recipient: RecipientRow
    attempt_result: AttemptResult
    state: RecipientState
    step: TimelineStep
    detail: str | None
    reason: str | None = None
    due_time: datetime | None = None
    sent_time: datetime | None = None
    counter: Counter | None = None
    event: EventName | None = None
    event_fields: Mapping[str, str | bool] = MappingProxyType({})
    blocks_address: bool = False
    soft_bounces: Literal["count", "reset"] | None = None

    def recipient_columns(self) -> dict[str, Any]:
        """The columns to write of the recipient, which is the `row`: none while it stays in the queue, unless its
        message may have arrived."""
        attempt_result, is_settled = self.attempt_result, self.state not in UNSETTLED_STATES
        address = attempt_result.address if is_settled or self.state is RecipientState.UNCERTAIN else None
        is_email = self.recipient.type == "email"
        result = attempt_result.result
        facts = {
            "gateway_id": result.gateway_id if result else None,
            "segments": result.segments if result else None,
            "email": address if is_email else None,
            "mobile": None if is_email else address,
        }
        if not is_settled and not any(facts.values()):
            return {}
        return {
            "row": self.recipient.id,
            "state": self.state if is_settled else RecipientState.QUEUED,
            "reason": self.reason,
            "attempts": self.recipient.attempts,
            "sent_time": self.sent_time,
            "rendered_bytes": attempt_result.rendered,
            **facts,
        }

    def entry_columns(self, moment: datetime) -> dict[str, Any]:
        """The columns to write of its queue entry, which is the `row`, if it stays in the queue. `moment` is now."""
        return {
            "row": self.recipient.id,
            "state": self.state,
            "due_time": self.due_time,
            "ready_time": self.due_time and max(self.due_time, moment),
            "rendered_bytes": self.attempt_result.rendered,
        }

    def step_row(self) -> dict[str, Any]:
        """The step of the transition for the timeline."""
        recipient, attempt_result = self.recipient, self.attempt_result
        note = attempt_result.result.note if attempt_result.result else None
        return step_row(
            recipient.account_id,
            recipient.id,
            self.step,
            self.detail,
            attempt_result.moment,
            note=note,
            transport=attempt_result.transport,
        )

    def payload(self) -> Payload:
        """The event of a transition that has one."""
        attempt_result = self.attempt_result
        return self.recipient.event(
            self.event or "", attempt_result.moment, self.event_fields, address=attempt_result.address
        )


@dataclass(frozen=True, slots=True)
class RetryRules:
    """When a deferred message is attempted again: `first_delay` and `period` in seconds. `uncertain_wait` is how long
    one that may have arrived is left alone at least."""

    first_delay: float
    period: float
    uncertain_wait: float = 900.0

    @classmethod
    def of(cls, settings: Settings) -> RetryRules:
        """The rules in the settings RETRY_DELAY, RETRY_PERIOD and UNCERTAIN_WAIT."""
        return cls(settings.retry_delay, settings.retry_period, settings.uncertain_wait)

    def next_attempt(self, recipient: RecipientRow, moment: datetime, retry_in: float | None = None) -> datetime | None:
        """The time of the next attempt; None when the period is over (docs/retries.md). `retry_in` replaces
        the delay.

        The last attempt falls on the end of the period, however long the delays have grown by then.
        """
        end = self.end(recipient.begin_time)
        if moment >= end or retry_in == math.inf:
            return None
        delay = self.delay(recipient.attempts) if retry_in is None else retry_in
        return min(moment + timedelta(seconds=delay), end)

    def end(self, begin_time: datetime) -> datetime:
        """When the retry period ends that began then."""
        return begin_time + timedelta(seconds=self.period)

    def end_of_doubt(self, recipient: RecipientRow, moment: datetime) -> datetime:
        """Until when a message that may have arrived is left alone: until its next attempt, and for `uncertain_wait` at
        least."""
        earliest = moment + timedelta(seconds=self.uncertain_wait)
        return max(self.next_attempt(recipient, moment) or earliest, earliest)

    def delay(self, attempts: int) -> float:
        """Seconds after attempt number `attempts`: the first delay, then doubling up to an hour.

        A little is added at random, so that messages that failed together do not come back together.
        """
        longest = max(MAX_DELAY, self.first_delay)
        doubled = max(self.first_delay, 1.0) * 2.0 ** min(attempts - 1, 30)
        seconds = self.first_delay if attempts <= 1 else min(doubled, longest)
        return seconds * _random.uniform(1, 1 + JITTER)


def decide_transition(
    recipient: RecipientRow, attempt_result: AttemptResult, rules: RetryRules, *, relay_refuses: bool = False
) -> Transition:
    """The transition of the recipient that the attempt result is about. `relay_refuses` is whether it failed because
    the relay refuses everything of its account."""
    result = attempt_result.result
    if result is None:
        return _failed(recipient, attempt_result, attempt_result.skip or OTHER_REASON, attempt_result.detail)
    match result.outcome:
        case Outcome.ACCEPTED:
            return sent_transition(recipient, attempt_result, result)
        case Outcome.REFUSED if not relay_refuses:
            return _refused(recipient, attempt_result, result)
        case Outcome.UNCERTAIN if recipient.type == "email":
            return _uncertain(recipient, attempt_result, result, rules)
        case Outcome.REFUSED | Outcome.DEFERRED | Outcome.UNCERTAIN:
            return _deferred(recipient, attempt_result, result, rules, relay_refuses=relay_refuses)


def sent_transition(recipient: RecipientRow, attempt_result: AttemptResult, result: DeliveryResult) -> Transition:
    """The transition of a recipient whose message was accepted."""
    return Transition(
        recipient,
        attempt_result,
        state=RecipientState.DELIVERED if recipient.type == "email" else RecipientState.SENT,
        step=TimelineStep.SENT,
        detail=result.reply,
        sent_time=attempt_result.moment.replace(microsecond=0),
        counter="delivered",
        event="sent",
        soft_bounces="reset" if recipient.type == "email" else None,
    )


def _refused(recipient: RecipientRow, attempt_result: AttemptResult, result: DeliveryResult) -> Transition:
    if recipient.type == "sms":
        return _failed(recipient, attempt_result, FailReason.REJECTED, result.reply)
    return _bounced(recipient, attempt_result, Bounce.from_result(result))


def _uncertain(
    recipient: RecipientRow, attempt_result: AttemptResult, result: DeliveryResult, rules: RetryRules
) -> Transition:
    """An uncertain attempt is not given up before it has been resolved, not even at the end of the period
    (app/sends/outcomes/recovery.py)."""
    return Transition(
        recipient,
        attempt_result,
        state=RecipientState.UNCERTAIN,
        step=TimelineStep.UNCERTAIN,
        detail=result.reply,
        due_time=rules.end_of_doubt(recipient, attempt_result.moment),
    )


def _deferred(
    recipient: RecipientRow,
    attempt_result: AttemptResult,
    result: DeliveryResult,
    rules: RetryRules,
    *,
    relay_refuses: bool,
) -> Transition:
    """An end after the retry period counts against the address only if its mail server has deferred the last attempt:
    it is not to blame for a relay that is away or refuses everything."""
    due_time = rules.next_attempt(recipient, attempt_result.moment, attempt_result.retry_in)
    if due_time is not None:
        return Transition(
            recipient,
            attempt_result,
            state=RecipientState.QUEUED,
            step=TimelineStep.DEFERRED,
            detail=result.reply,
            due_time=due_time,
        )
    if recipient.type == "sms":
        return _failed(recipient, attempt_result, FailReason.EXPIRED, result.reply)
    is_counted = is_of_mail_server(result) and not relay_refuses
    return _bounced(recipient, attempt_result, Bounce.from_result(result, is_soft=True), is_counted=is_counted)


def is_of_mail_server(result: DeliveryResult) -> bool:
    """Whether a mail server has deferred the message, and not the way to it: a relay that is away or takes no mail now,
    or a fault of our own, whose texts have no SMTP code."""
    return result.untaken is None and _DEFERS.match(result.reply) is not None


def _bounced(
    recipient: RecipientRow, attempt_result: AttemptResult, bounce: Bounce, *, is_counted: bool = True
) -> Transition:
    return Transition(
        recipient,
        attempt_result,
        state=RecipientState.BOUNCED,
        step=TimelineStep.BOUNCED,
        detail=bounce.diagnostic,
        reason=bounce.diagnostic,
        counter="bounced",
        event="bounced",
        event_fields=bounce.event_fields,
        blocks_address=bounce.blocks,
        soft_bounces="count" if bounce.is_soft and is_counted else None,
    )


def _failed(recipient: RecipientRow, attempt_result: AttemptResult, reason: str, reply: str | None) -> Transition:
    return Transition(
        recipient,
        attempt_result,
        state=RecipientState.FAILED,
        step=TimelineStep.FAILED,
        detail=reply or reason,
        reason=reason,
        counter="failed_contacts",
        event="failed",
        event_fields={"fail_reason": reason},
    )
