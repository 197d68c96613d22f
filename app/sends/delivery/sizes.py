"""The sizes of messages, their limits, and what becomes of a message beyond them. Pure."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from app.content.limits import MAX_VALUE_LENGTH
from app.content.wildcards import DELIMITER
from app.recipients.states import FailReason
from app.settings import Settings


class Unsendable(Exception):
    """A message that must not be sent; the text explains why, and `reason` is the `fail_reason` of its recipient."""

    reason: ClassVar[FailReason]


class EmptyMessage(Unsendable):
    """A text message without a text (docs/delivery.md#skipped-recipients)."""

    reason = FailReason.CONTENT_MISSING


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


LARGE_MESSAGE_LENGTH = 128 * 1024
"""Characters beyond which building a message takes long: some ten milliseconds and more."""
MAX_VALUE_BYTES = MAX_VALUE_LENGTH * 6
"""Bytes, where each character is escaped as `&quot;`."""
MAX_CHARACTER_BYTES = 4


class TemplateSize(NamedTuple):
    """A subject or a body before rendering: its length in characters, and the wildcards that it may contain."""

    length: int
    wildcards: int

    @classmethod
    def of(cls, text: str | None) -> TemplateSize:
        """The size of a template; zero for an absent one."""
        return cls(len(text), text.count(DELIMITER) // 2) if text else cls(0, 0)

    def max_bytes(self, limit: int) -> int:
        """Bytes that the rendered text never exceeds, if rendering stops at `limit`."""
        return min(limit, self.length * MAX_CHARACTER_BYTES + self.wildcards * MAX_VALUE_BYTES)


class MessageSizes(NamedTuple):
    """The template sizes of a send."""

    subject: TemplateSize
    html: TemplateSize
    text: TemplateSize
    text_from_html: bool
    """Whether the text body is derived from the HTML."""

    def max_bytes(self, body_limit: int) -> int:
        """Bytes that no recipient's subject and bodies exceed, where each body is limited to `body_limit`."""
        text = body_limit if self.text_from_html else self.text.max_bytes(body_limit)
        return self.subject.max_bytes(MAX_SUBJECT_BYTES) + self.html.max_bytes(body_limit) + text

    @property
    def source(self) -> int:
        """Characters of the subject and the bodies before rendering, all of which is read for each recipient."""
        return self.subject.length + self.html.length + self.text.length

    def is_large(self, values: Iterable[object]) -> bool:
        """Whether building the message of a recipient with these values may take long."""
        length = self.source
        wildcards = self.subject.wildcards + self.html.wildcards + self.text.wildcards
        if length + wildcards * MAX_VALUE_LENGTH <= LARGE_MESSAGE_LENGTH:
            return False
        longest = max((len(value) for value in values if isinstance(value, str)), default=0)
        return length + wildcards * longest > LARGE_MESSAGE_LENGTH
