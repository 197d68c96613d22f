"""Upper bounds of the size of a send's messages, known before they are rendered: from templates and values. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from app.content.limits import MAX_VALUE_LENGTH
from app.content.wildcards import DELIMITER
from app.sends.delivery.size_limits import MAX_SUBJECT_BYTES

LARGE = 128 * 1024
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
        if length + wildcards * MAX_VALUE_LENGTH <= LARGE:
            return False
        longest = max((len(value) for value in values if isinstance(value, str)), default=0)
        return length + wildcards * longest > LARGE
