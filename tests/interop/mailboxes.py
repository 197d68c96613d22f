"""Mail servers behind the relay, which keep mail or refuse it."""

from __future__ import annotations

import email
import email.policy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller

from tests.support.servers import free_port


class Mailboxes:
    """A mail server. With an `answer` it says that at the end of each message, instead of keeping it."""

    def __init__(self, answer: str | None = None) -> None:
        self.port = free_port()
        self._answer = answer
        self._lock = threading.Lock()
        self._kept: dict[str, list[EmailMessage]] = {}

    def of(self, address: str) -> list[EmailMessage]:
        """The messages to an address so far."""
        with self._lock:
            return list(self._kept.get(address, ()))

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        """Keeps it, or says the answer."""
        if self._answer:
            return self._answer
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        with self._lock:
            for address in envelope.rcpt_tos:
                self._kept.setdefault(address, []).append(message)
        return "250 2.0.0 kept"


@contextmanager
def mailboxes(answer: str | None = None) -> Iterator[Mailboxes]:
    """A running one on a port of the loopback address."""
    made = Mailboxes(answer)
    controller = Controller(made, hostname="127.0.0.1", port=made.port)
    controller.start()
    try:
        yield made
    finally:
        controller.stop()
