"""Requests beyond the number of threads wait in order."""

from __future__ import annotations

from typing import Any

from app.http.server.answering_threads import Admission, PendingRequest


def pending(name: Any) -> PendingRequest:
    """A request of this name."""
    connection: Any = None
    return PendingRequest(connection, name)


def names(taken: list[PendingRequest]) -> list[object]:
    return [entry.request for entry in taken]


def left(admission: Admission) -> list[object]:
    """What the only thread is given until nothing waits."""
    requests: list[object] = []
    while (entry := admission.leave()) is not None:
        requests.append(entry.request)
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
    assert admission.take_overdue(waiting[0].since) == []
    assert names(admission.take_overdue(float("inf"))) == [0, 1, 2]
    assert admission.take_overdue(float("inf")) == []
