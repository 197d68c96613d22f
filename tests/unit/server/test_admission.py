"""Requests beyond the number of threads wait in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from app.db.bounded_connection import WaitBudget
from app.http.repetition import Attempts
from app.http.server.answering_threads import Admission, PendingRequest


@dataclass
class NamedRequest:
    """What is known of a request while it waits, and its name."""

    name: object
    attempts: Attempts = field(default_factory=Attempts)


def pending(name: object, attempts: Attempts | None = None) -> PendingRequest:
    """A request of this name."""
    connection: Any = None
    request: Any = NamedRequest(name, attempts or Attempts())
    return PendingRequest(connection, request)


def name_of(entry: PendingRequest) -> object:
    request: Any = entry.request
    return request.name


def names(taken: list[PendingRequest]) -> list[object]:
    return [name_of(entry) for entry in taken]


def left(admission: Admission) -> list[object]:
    """What the only thread is given until nothing waits."""
    requests: list[object] = []
    while (entry := admission.leave()) is not None:
        requests.append(name_of(entry))
    return requests


def test_requests_beyond_the_limit_wait_and_are_taken_in_order() -> None:
    admission = Admission(2)
    assert [admission.enter(pending(number)) for number in range(5)] == [True, True, False, False, False]
    assert left(admission) == [2, 3, 4]
    assert left(admission) == []
    assert [admission.enter(pending(number)) for number in range(3)] == [True, True, False]


def test_the_next_request_of_a_client_waits_behind_those_of_others() -> None:
    admission = Admission(1)
    assert admission.enter(pending("first"))
    assert not admission.enter(pending("of another client"))
    admission.append(pending("second"))
    assert left(admission) == ["of another client", "second"]


def test_overdue_requests_are_removed_and_later_ones_stay() -> None:
    admission = Admission(0)
    waiting = [pending(number) for number in range(3)]
    for request in waiting:
        assert not admission.enter(request)
    assert admission.take_overdue(waiting[0].since, 5.0) == []
    assert names(admission.take_overdue(waiting[1].since + 5.0, 5.0)) == [0]
    assert names(admission.take_overdue(float("inf"), 5.0)) == [1, 2]
    assert admission.take_overdue(float("inf"), 5.0) == []


def test_a_repeated_request_waits_as_long_as_its_budget_allows() -> None:
    admission = Admission(0)
    repeated = pending("repeated", Attempts(budget=WaitBudget(1.0, total=True)))
    for request in (pending("new"), repeated):
        assert not admission.enter(request)
    assert admission.take_overdue(repeated.since + 0.9, 5.0) == []
    assert names(admission.take_overdue(repeated.since + 1.1, 5.0)) == ["repeated"]
