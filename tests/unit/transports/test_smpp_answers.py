"""Answers of a gateway find who waits for them, while others come and go."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from app.transports.sms.smpp_answers import Answers


@pytest.fixture
def _switching_often() -> Iterator[None]:
    """The interpreter goes from thread to thread all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_an_answer_reaches_who_waits_for_it_alone() -> None:
    answers = Answers()
    first, second = answers.expect(1), answers.expect(2)
    pdu = SimpleNamespace(sequence=2)
    answers.give(pdu)
    answers.give(SimpleNamespace(sequence=3))
    assert second.get_nowait() is pdu
    assert first.empty()


def test_who_no_longer_waits_gets_nothing() -> None:
    answers = Answers()
    place = answers.expect(1)
    answers.forget(1)
    answers.forget(1)
    answers.give(SimpleNamespace(sequence=1))
    answers.give_up()
    assert place.empty()


@pytest.mark.usefixtures("_switching_often")
def test_a_lost_connection_is_told_to_all_while_others_come_and_go() -> None:
    """The thread that tells them binds anew afterwards: nothing may end it."""
    answers, done, faults = Answers(), threading.Event(), queue.SimpleQueue[BaseException]()
    steady = [answers.expect(number) for number in range(2000)]

    def come_and_go(first: int) -> None:
        for number in range(first, first + 100_000):
            if done.is_set():
                return
            answers.expect(number)
            answers.forget(number)

    threads = [threading.Thread(target=come_and_go, args=(start,)) for start in (10_000, 1_000_000)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            answers.give_up()
    except RuntimeError as error:
        faults.put(error)
    finally:
        done.set()
    for thread in threads:
        thread.join()
    assert faults.empty()
    assert {place.qsize() for place in steady} == {100}
