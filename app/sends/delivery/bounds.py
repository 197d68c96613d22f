"""How large what is made of a send may be, and what says that something is larger (docs/delivery.md#size-limits).
Pure."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from app.sends.delivery.unsendable import Unsendable
from app.settings import Settings

TOO_LARGE = "too_large"
"""The `fail_reason` of a recipient whose message would go beyond a bound."""
MAX_SUBJECT_BYTES = 64 * 1024
"""No reader shows as many, and folding them takes its time."""


class MessageTooLarge(Unsendable):
    """A message that would go beyond a bound; its text says which. Whoever makes it has stopped there."""

    reason = TOO_LARGE


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """Bytes, each at most: of a body that was filled in, of an encoded mail, of all that one send renders."""

    body: int
    mail: int
    send: int

    @classmethod
    def of(cls, settings: Settings) -> SizeLimits:
        """Those of the settings MAX_BODY_BYTES, MAX_MAIL_BYTES and MAX_SEND_BYTES."""
        return cls(settings.max_body_bytes, settings.max_mail_bytes, settings.max_send_bytes)


class RenderQuota:
    """What is left of a send's bound for recipients that are rendered at the same time; threads share it."""

    def __init__(self, bound: int, left: int) -> None:
        self._bound = bound
        self._left = left
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raises `MessageTooLarge` when nothing is left, so that nothing is rendered in vain."""
        if self._left <= 0:
            raise self._refusal()

    def take(self, size: int) -> None:
        """Counts what was rendered. Raises `MessageTooLarge`, and counts nothing, when that is more than is left."""
        with self._lock:
            if size > self._left:
                raise self._refusal()
            self._left -= size

    def _refusal(self) -> MessageTooLarge:
        return MessageTooLarge(f"with it, the send would render more than {self._bound} bytes in all")
