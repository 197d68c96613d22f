"""Results of recipients whose message is not handed to a transport."""

from __future__ import annotations

from app.clock import now
from app.recipients.reasons import FailReason
from app.sends.delivery.compose import PreparedRecipient
from app.sends.outcomes.attempt_result import AttemptResult
from app.transports.base import DeliveryResult


def not_sent(recipient: PreparedRecipient, reason: FailReason, detail: str | None = None) -> AttemptResult:
    """The result of a recipient that is skipped, or whose message cannot be sent."""
    return AttemptResult(
        recipient.id,
        recipient.claimed.attempts,
        recipient.address or None,
        now(),
        skip=reason,
        detail=detail,
        is_test=recipient.compiled.send.is_test,
    )


def deferred(recipient: PreparedRecipient, result: DeliveryResult) -> AttemptResult:
    """The result of a recipient whose message goes to no transport now, with what became of it at those before."""
    if recipient.route:
        result = result._replace(note=recipient.route.note(result.note))
    attempt, is_test = recipient.claimed.attempts, recipient.compiled.send.is_test
    return AttemptResult(recipient.id, attempt, recipient.address, now(), result=result, is_test=is_test)
