"""The watchdog ends requests at their deadlines, with one thread for all."""

from __future__ import annotations

import threading

import pytest

from app.events.guarded_connection import Exchange, Watchdog
from tests.support.servers import PATIENCE, wait_until
from tests.support.threads import without_memory

LONG = 10 * PATIENCE


class Wait(Exchange):
    """An exchange that waits until the watchdog ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.was_cut = threading.Event()

    def cut(self) -> None:
        self.was_cut.set()


class Clock:
    """The clock of the watchdog, which tests move."""

    def __init__(self) -> None:
        self.moment = 0.0

    def monotonic(self) -> float:
        return self.moment


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake_clock = Clock()
    monkeypatch.setattr("app.events.guarded_connection.time", fake_clock)
    return fake_clock


def test_an_operation_is_ended_at_its_deadline() -> None:
    watchdog, slow = Watchdog(), Wait()
    with watchdog.cut_after(slow, 0.05):
        assert slow.was_cut.wait(PATIENCE)


def test_an_operation_that_ended_in_time_is_left_alone_at_its_deadline(clock: Clock) -> None:
    watchdog, quick, slow = Watchdog(), Wait(), Wait()
    with watchdog.cut_after(quick, LONG):
        pass
    clock.moment = 2 * LONG
    with watchdog.cut_after(slow, -1.5 * LONG):
        assert slow.was_cut.wait(PATIENCE)
    assert not quick.was_cut.is_set()


def test_a_restart_sets_a_new_deadline(clock: Clock) -> None:
    watchdog, wait = Watchdog(), Wait()
    with watchdog.cut_after(wait, LONG):
        clock.moment = 2 * LONG
        watchdog.restart(wait, -LONG)
        assert wait.was_cut.wait(PATIENCE)


def test_the_earlier_deadline_comes_first_whichever_began_first() -> None:
    watchdog, long, short = Watchdog(), Wait(), Wait()
    with watchdog.cut_after(long, LONG), watchdog.cut_after(short, 0.05):
        assert short.was_cut.wait(PATIENCE)
    assert not long.was_cut.is_set()


def test_one_thread_watches_all_operations_and_ends_without_any(clock: Clock) -> None:
    before = set(threading.enumerate())
    watchdog, waits = Watchdog(), [Wait() for _ in range(20)]

    def own_threads() -> int:
        return len(set(threading.enumerate()) - before)

    for wait in waits:
        with watchdog.cut_after(wait, LONG):
            assert own_threads() == 1
    clock.moment = 2 * LONG
    with watchdog.cut_after(last := Wait(), -1.5 * LONG):
        assert last.was_cut.wait(PATIENCE)
    wait_until(lambda: own_threads() == 0, "the thread has ended")
    with watchdog.cut_after(again := Wait(), 0.05):
        assert not again.was_cut.wait(0.1), "no time has passed yet"
        clock.moment += 0.05
        assert again.was_cut.wait(PATIENCE)
    assert not any(wait.was_cut.is_set() for wait in waits)


def test_a_thread_that_could_not_start_is_started_for_the_next_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    watchdog, refused, slow = Watchdog(), Wait(), Wait()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", without_memory)
        with pytest.raises(MemoryError), watchdog.cut_after(refused, 0.05):
            pass
    with watchdog.cut_after(slow, 0.05):
        assert slow.was_cut.wait(PATIENCE)
    assert not refused.was_cut.is_set()
