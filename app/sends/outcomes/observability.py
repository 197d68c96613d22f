"""Outcomes for the operator: a line in the log for each recipient, and the counts for Prometheus."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from app.infrastructure import logs
from app.infrastructure.metrics import DEFERRALS, OUTCOMES, TRANSPORT_OUTCOMES, account_class
from app.recipients.redaction import without_address
from app.recipients.timeline import TimelineStep
from app.routing.table import DEFAULT
from app.sends.outcomes.transitions import Transition

SUBJECTS = {
    "1": "address",
    "2": "mailbox",
    "3": "mail_system",
    "4": "network",
    "5": "protocol",
    "6": "content",
    "7": "policy",
}
"""The second part of a status code (RFC 3463), and what it is about."""

logger = logging.getLogger(__name__)


def report_transitions(transitions: Sequence[Transition]) -> None:
    """Each line has the id of the request that the recipient belongs to."""
    counts = Counter((_account_class(one), one.recipient.type, one.step, _transport(one)) for one in transitions)
    for (class_, type_, step, transport), count in counts.items():
        OUTCOMES.labels(class_, type_, step).inc(count)
        if transport is not None:
            TRANSPORT_OUTCOMES.labels(type_, transport, step).inc(count)
    for (type_, reason), count in Counter(_deferrals(transitions)).items():
        DEFERRALS.labels(type_, reason).inc(count)
    logs.log_many(logger, [(one.step, _fields(one)) for one in transitions])


def _account_class(transition: Transition) -> str:
    return account_class(is_test=transition.attempt_result.is_test)


def _transport(transition: Transition) -> str | None:
    """The transport that was used; None for a recipient that was not sent to, or whose message was captured."""
    attempt_result = transition.attempt_result
    is_sent = attempt_result.result is not None and not attempt_result.is_test
    return attempt_result.transport or DEFAULT if is_sent else None


def _deferrals(transitions: Sequence[Transition]) -> Iterator[tuple[str, str]]:
    """Type and reason of the deferrals after an attempt."""
    for one in transitions:
        result = one.attempt_result.result
        if one.step is TimelineStep.DEFERRED and result is not None and not one.attempt_result.is_test:
            subject = (result.status or "").partition(".")[2].partition(".")[0]
            yield one.recipient.type, SUBJECTS.get(subject, "other")


def _fields(transition: Transition) -> dict[str, Any]:
    recipient, result = transition.recipient, transition.attempt_result.result
    address = transition.attempt_result.address or recipient.email or recipient.mobile
    fields: dict[str, Any] = {
        "request_id": recipient.request_id,
        "account_id": recipient.account_id,
        "uuid": recipient.uuid,
        "attempt": recipient.attempts,
        "detail": without_address(transition.detail, address),
    }
    if result and result.note:
        fields["note"] = without_address(result.note, address)
    if transition.attempt_result.transport:
        fields["transport"] = transition.attempt_result.transport
    return fields
