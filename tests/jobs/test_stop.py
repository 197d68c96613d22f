"""The request to stop, made by a signal at any time."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from jobs.stop import Stop
from tests.support.servers import PATIENCE

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture
def stopping() -> Iterator[threading.Event]:
    """The event that a signal to this process sets while the test runs."""
    handlers = [signal.getsignal(number) for number in SIGNALS]
    event = threading.Event()
    Stop(event).catch_signals()
    yield event
    for number, handler in zip(SIGNALS, handlers, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_handled_without_a_lock(
    stopping: threading.Event, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupted code may hold the event's lock, or one that is needed to start a thread."""
    monkeypatch.setattr(threading.Thread, "start", lambda _thread: pytest.fail("a thread was started"))
    with stopping._cond:  # type: ignore[attr-defined]
        signal.raise_signal(number)
        signal.raise_signal(number)
    assert stopping.wait(PATIENCE)
