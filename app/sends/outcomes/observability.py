"""What an operator is told of outcomes: a line in the log for each recipient, and the counts for Prometheus."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from app.infrastructure import logs
from app.infrastructure.metrics import OUTCOMES
from app.sends.outcomes.transitions import Transition

logger = logging.getLogger(__name__)


def report_transitions(made: Sequence[Transition]) -> None:
    """One line per recipient, with the id of the request that it came with; and the counts for Prometheus."""
    for (type_, step), count in Counter((one.held.type, one.step) for one in made).items():
        OUTCOMES.labels(type_, step).inc(count)
    with logs.buffered():
        for one in made:
            logger.info(
                one.step,
                extra={
                    "request_id": one.held.request_id,
                    "account_id": one.held.account_id,
                    "uuid": one.held.uuid,
                    "attempt": one.held.attempts,
                    "detail": one.detail,
                    **({"note": note} if (note := one.verdict.result and one.verdict.result.note) else {}),
                },
            )
