"""A mail server that keeps what it accepts, with a delay for each message."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiosmtpd.controller import Controller

from tests.support.servers import PATIENCE


class Sink:
    """Counts accepted messages by recipient."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._accepted: Counter[str] = Counter()

    @property
    def accepted(self) -> Counter[str]:
        """Address -> messages, so far."""
        with self._lock:
            return self._accepted.copy()

    def forget(self) -> None:
        """Begins to count anew."""
        with self._lock:
            self._accepted.clear()

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        """Accepts a message after a delay."""
        await asyncio.sleep(self.seconds)
        with self._lock:
            self._accepted.update(envelope.rcpt_tos)
        return "250 2.0.0 accepted"


@contextmanager
def mail_sink(port: int, seconds: float = 0.0) -> Iterator[Sink]:
    """A running one on a port of the loopback address."""
    sink = Sink(seconds)
    controller = Controller(sink, hostname="127.0.0.1", port=port, ready_timeout=PATIENCE)
    controller.start()
    try:
        yield sink
    finally:
        controller.stop()
