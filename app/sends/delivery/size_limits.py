"""Size limits of bodies, mails and whole sends (docs/delivery.md#size-limits). Pure."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from app.recipients.reasons import FailReason
from app.sends.delivery.unsendable import Unsendable
from app.settings import Settings

MAX_SUBJECT_BYTES = 64 * 1024
"""No mail program shows that many, and folding a longer subject is slow."""


class MessageTooLarge(Unsendable):
    """A message that would exceed a limit, which the text names. Rendering stops there."""

    reason = FailReason.TOO_LARGE


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """Maximum bytes of a rendered body, of an encoded mail, and of all that one send renders."""

    body: int
    mail: int
    send: int

    @classmethod
    def of(cls, settings: Settings) -> SizeLimits:
        """The limits MAX_BODY_BYTES, MAX_MAIL_BYTES and MAX_SEND_BYTES."""
        return cls(settings.max_body_bytes, settings.max_mail_bytes, settings.max_send_bytes)


class RenderQuota:
    """The bytes that remain of a send's limit for recipients rendered at the same time; threads share it."""

    def __init__(self, limit: int, remaining: int) -> None:
        self._limit = limit
        self._remaining = remaining
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raises `MessageTooLarge` if nothing remains, before anything is rendered in vain."""
        if self._remaining <= 0:
            raise self._error()

    def consume(self, size: int) -> None:
        """Subtracts rendered bytes. Raises `MessageTooLarge`, and subtracts nothing, if fewer remain."""
        with self._lock:
            if size > self._remaining:
                raise self._error()
            self._remaining -= size

    def _error(self) -> MessageTooLarge:
        return MessageTooLarge(f"with it, the send would render more than {self._limit} bytes in all")
