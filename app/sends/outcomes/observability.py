"""Outcomes for the operator: a line in the log for each recipient, and the counts for Prometheus."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

from app.infrastructure import logs
from app.infrastructure.metrics import OUTCOMES, TRANSPORT_OUTCOMES
from app.routing.table import DEFAULT
from app.sends.outcomes.transitions import Transition

logger = logging.getLogger(__name__)


def report_transitions(transitions: Sequence[Transition]) -> None:
    """Each line has the id of the request that the recipient belongs to."""
    counts = Counter((one.recipient.type, one.step, _transport(one)) for one in transitions)
    for (type_, step, transport), count in counts.items():
        OUTCOMES.labels(type_, step).inc(count)
        if transport is not None:
            TRANSPORT_OUTCOMES.labels(type_, transport, step).inc(count)
    logs.log_many(logger, [(one.step, _fields(one)) for one in transitions])


def _transport(transition: Transition) -> str | None:
    """The transport that was used; None for a recipient that was not sent to."""
    attempt_result = transition.attempt_result
    return None if attempt_result.result is None else attempt_result.transport or DEFAULT


def _fields(transition: Transition) -> dict[str, Any]:
    recipient, result = transition.recipient, transition.attempt_result.result
    fields: dict[str, Any] = {
        "request_id": recipient.request_id,
        "account_id": recipient.account_id,
        "uuid": recipient.uuid,
        "attempt": recipient.attempts,
        "detail": transition.detail,
    }
    if result and result.note:
        fields["note"] = result.note
    if transition.attempt_result.transport:
        fields["transport"] = transition.attempt_result.transport
    return fields
