"""Cutting what takes too long, with one thread for all that is watched."""

from __future__ import annotations

import threading

import pytest

from app.events.watchdog import Watchdog
from tests.support.servers import PATIENCE, wait_until

LONG = 10 * PATIENCE


class Wait:
    """Something that waits until it is cut."""

    def __init__(self) -> None:
        self.was_cut = threading.Event()

    def cut(self) -> None:
        self.was_cut.set()


class Clock:
    """What the watchdog takes for the time, for tests in which time passes when they say so."""

    def __init__(self) -> None:
        self.moment = 0.0

    def monotonic(self) -> float:
        return self.moment


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("app.events.watchdog.time", made)
    return made


def test_what_takes_too_long_is_cut() -> None:
    watchdog, slow = Watchdog(), Wait()
    with watchdog.cut_after(slow, 0.05):
        assert slow.was_cut.wait(PATIENCE)


def test_what_ended_in_time_is_not_cut_when_its_time_is_over(clock: Clock) -> None:
    watchdog, quick, slow = Watchdog(), Wait(), Wait()
    with watchdog.cut_after(quick, LONG):
        pass
    clock.moment = 2 * LONG
    with watchdog.cut_after(slow, -1.5 * LONG):
        assert slow.was_cut.wait(PATIENCE)
    assert not quick.was_cut.is_set()


def test_a_restart_sets_the_deadline_anew(clock: Clock) -> None:
    watchdog, wait = Watchdog(), Wait()
    with watchdog.cut_after(wait, LONG):
        clock.moment = 2 * LONG
        watchdog.restart(wait, -LONG)
        assert wait.was_cut.wait(PATIENCE)


def test_the_shorter_of_two_times_comes_first_whichever_began_first() -> None:
    watchdog, long, short = Watchdog(), Wait(), Wait()
    with watchdog.cut_after(long, LONG), watchdog.cut_after(short, 0.05):
        assert short.was_cut.wait(PATIENCE)
    assert not long.was_cut.is_set()


def test_one_thread_watches_many_and_ends_when_there_is_nothing_to_watch(clock: Clock) -> None:
    before = set(threading.enumerate())
    watchdog, waits = Watchdog(), [Wait() for _ in range(20)]

    def own_threads() -> int:
        return len(set(threading.enumerate()) - before)

    for one in waits:
        with watchdog.cut_after(one, LONG):
            assert own_threads() == 1
    clock.moment = 2 * LONG
    with watchdog.cut_after(last := Wait(), -1.5 * LONG):
        assert last.was_cut.wait(PATIENCE)
    wait_until(lambda: own_threads() == 0, "the thread has ended")
    with watchdog.cut_after(again := Wait(), 0.05):
        assert not again.was_cut.wait(0.1), "no time has passed yet"
        clock.moment += 0.05
        assert again.was_cut.wait(PATIENCE)
    assert not any(one.was_cut.is_set() for one in waits)
