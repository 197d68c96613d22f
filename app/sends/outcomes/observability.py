"""Outcomes for the operator: a line in the log for each recipient, and the counts for Prometheus."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

from app.infrastructure import logs
from app.infrastructure.metrics import OUTCOMES
from app.sends.outcomes.transitions import Transition

logger = logging.getLogger(__name__)


def report_transitions(transitions: Sequence[Transition]) -> None:
    """Each line has the id of the request that the recipient belongs to."""
    for (type_, step), count in Counter((one.recipient.type, one.step) for one in transitions).items():
        OUTCOMES.labels(type_, step).inc(count)
    logs.log_many(logger, [(one.step, _fields(one)) for one in transitions])


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
    return fields
