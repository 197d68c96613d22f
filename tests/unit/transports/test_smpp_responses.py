"""Responses of a gateway reach the threads that wait for them, while other threads start and stop waiting."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from app.transports.sms.smpp_client import PendingResponses


@pytest.fixture
def _switching_often() -> Iterator[None]:
    """Makes the interpreter switch between threads all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_response_reaches_only_the_thread_that_waits_for_it() -> None:
    responses = PendingResponses()
    first, second = responses.expect(1), responses.expect(2)
    pdu = SimpleNamespace(sequence=2)
    responses.resolve(pdu)
    responses.resolve(SimpleNamespace(sequence=3))
    assert second.get_nowait() is pdu
    assert first.empty()


def test_a_thread_that_no_longer_waits_gets_nothing() -> None:
    responses = PendingResponses()
    waiting = responses.expect(1)
    responses.forget(1)
    responses.forget(1)
    responses.resolve(SimpleNamespace(sequence=1))
    responses.cancel_all()
    assert waiting.empty()


@pytest.mark.usefixtures("_switching_often")
def test_a_lost_connection_wakes_all_threads_while_others_start_and_stop_waiting() -> None:
    """The thread that wakes them binds again afterwards, so nothing may end it."""
    responses, done, faults = PendingResponses(), threading.Event(), queue.SimpleQueue[BaseException]()
    steady = [responses.expect(number) for number in range(2000)]

    def start_and_stop(first: int) -> None:
        for number in range(first, first + 100_000):
            if done.is_set():
                return
            responses.expect(number)
            responses.forget(number)

    threads = [threading.Thread(target=start_and_stop, args=(start,)) for start in (10_000, 1_000_000)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            responses.cancel_all()
    except RuntimeError as error:
        faults.put(error)
    finally:
        done.set()
    for thread in threads:
        thread.join()
    assert faults.empty()
    assert {waiting.qsize() for waiting in steady} == {100}
