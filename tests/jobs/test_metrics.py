"""Counts for Prometheus (docs/monitoring/metrics.md)."""

from __future__ import annotations

from typing import Any

import pytest

from app.clock import now
from app.infrastructure.metrics import DEFERRALS, SWEEPS, WAKE_UPS
from app.infrastructure.redis_client import SENDS, WakeUps
from app.maintenance.sweeps import measured_sweep
from app.recipients.row import RecipientRow
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.delivery.transmission_counts import reply_class
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.transitions import Transition
from app.sends.outcomes.write import report_transitions
from app.services import Services
from app.transports.base import DeliveryResult, Untaken
from tests.unit.sends.test_outcome import recipient


@pytest.mark.parametrize(
    ("result", "reply"),
    [
        (DeliveryResult.accepted("250 ok"), "accepted"),
        (DeliveryResult.deferred("451 4.7.1 later", "4.7.1"), "temporary"),
        (DeliveryResult.deferred("451 4.4.1 cannot reach it", "4.4.1"), "temporary"),
        (DeliveryResult.deferred("no connection to the relay", "4.4.1", untaken=Untaken.TRANSPORT), "none"),
        (DeliveryResult.deferred("the connection to the relay was lost", "4.4.2"), "none"),
        (DeliveryResult.deferred("no answer from the gateway"), "none"),
        (DeliveryResult.refused("550 5.1.1 nobody", "5.1.1"), "permanent"),
        (DeliveryResult.uncertain("no answer to the end", "4.4.2"), "none"),
    ],
)
def test_a_reply_has_the_class_that_the_relay_gave_it(result: DeliveryResult, reply: str) -> None:
    assert reply_class(result) == reply


@pytest.mark.parametrize(
    ("status", "reason"), [("4.7.1", "policy"), ("4.2.2", "mailbox"), ("4.0.0", "other"), (None, "other")]
)
def test_a_deferral_is_counted_by_the_subject_of_its_status(status: str | None, reason: str) -> None:
    row: RecipientRow = recipient(1)
    before = DEFERRALS.labels("email", reason).value
    result = AttemptResult(1, 1, "ann@example.com", now(), DeliveryResult.deferred("451 later", status))
    report_transitions([Transition(row, result, RecipientState.QUEUED, TimelineStep.DEFERRED, "451 later")])
    assert DEFERRALS.labels("email", reason).value - before == 1


def test_a_wake_up_is_counted_by_what_became_of_it(services: Services) -> None:
    def numbers() -> list[float]:
        return [WAKE_UPS.labels(SENDS, result).value for result in ("added", "waiting", "failed")]

    services.wake_ups.wake(SENDS)
    before = numbers()
    services.wake_ups.wake(SENDS)
    away: Any = WakeUps(services.redis)
    away._breaker.open()
    away.wake(SENDS)
    assert [after - number for after, number in zip(numbers(), before, strict=True)] == [0, 1, 1]


def test_a_sweep_that_fails_is_counted_as_failed() -> None:
    before = SWEEPS.labels("queues", "failed").value
    with pytest.raises(ZeroDivisionError), measured_sweep("queues"):
        raise ZeroDivisionError
    assert SWEEPS.labels("queues", "failed").value - before == 1
