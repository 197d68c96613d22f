"""Cutting what takes too long, with one thread for all that is watched."""

from __future__ import annotations

import threading
import time

from app.events.watchdog import Watchdog
from tests.support.servers import wait_until


class Wait:
    """Something that waits until it is cut."""

    def __init__(self) -> None:
        self.was_cut = threading.Event()

    def cut(self) -> None:
        self.was_cut.set()


def test_what_takes_too_long_is_cut_and_what_ends_in_time_is_not() -> None:
    watchdog, slow, quick = Watchdog(), Wait(), Wait()
    with watchdog.cut_after(slow, 0.05):
        with watchdog.cut_after(quick, 0.05):
            pass
        assert slow.was_cut.wait(5)
    assert not quick.was_cut.is_set()


def test_the_shorter_of_two_times_comes_first_whichever_began_first() -> None:
    watchdog, long, short = Watchdog(), Wait(), Wait()
    with watchdog.cut_after(long, 60), watchdog.cut_after(short, 0.05):
        assert short.was_cut.wait(5)
    assert not long.was_cut.is_set()


def test_one_thread_watches_many_and_ends_when_there_is_nothing_to_watch() -> None:
    before = set(threading.enumerate())
    watchdog, waits = Watchdog(), [Wait() for _ in range(20)]

    def own_threads() -> int:
        return len(set(threading.enumerate()) - before)

    for one in waits:
        with watchdog.cut_after(one, 0.2):
            assert own_threads() == 1
    wait_until(lambda: own_threads() == 0, "the thread has ended")
    again = Wait()
    began = time.monotonic()
    with watchdog.cut_after(again, 0.05):
        assert again.was_cut.wait(5)
    assert time.monotonic() - began >= 0.05
    assert not any(one.was_cut.is_set() for one in waits)
