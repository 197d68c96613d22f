"""How large the messages of a send can become: known before they are made, from the sources and the values. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from app.content.wildcards import SIGN
from app.sends.delivery.bounds import MAX_SUBJECT_BYTES

LARGE = 128 * 1024
"""Characters beyond which it takes long, some ten milliseconds and more, to make a message."""
LONGEST_VALUE = 10_000
"""Characters of a value (docs/sending.md#wildcard-values)."""
LARGEST_VALUE = LONGEST_VALUE * 6
"""Bytes, where each character is written as `&quot;`."""
LARGEST_CHARACTER = 4


class Source(NamedTuple):
    """A subject or a body before it is filled in: its characters, and how many values it may hold."""

    length: int
    places: int

    @classmethod
    def of(cls, text: str | None) -> Source:
        """That of a text; of an absent one, too."""
        return cls(len(text), text.count(SIGN) // 2) if text else cls(0, 0)

    def most_bytes(self, most: int) -> int:
        """Bytes that it never exceeds, where no more than `most` are let through."""
        return min(most, self.length * LARGEST_CHARACTER + self.places * LARGEST_VALUE)


class Sizes(NamedTuple):
    """Those of a send."""

    subject: Source
    html: Source
    text: Source
    is_read: bool
    """Whether a text is made of the HTML."""

    def most_bytes(self, body: int) -> int:
        """Bytes that no recipient's subject and bodies exceed, where a body has at most so many."""
        text = body if self.is_read else self.text.most_bytes(body)
        return self.subject.most_bytes(MAX_SUBJECT_BYTES) + self.html.most_bytes(body) + text

    def is_large(self, values: Iterable[object]) -> bool:
        """Whether it may take long to make the message of a recipient with these values."""
        length = self.subject.length + self.html.length + self.text.length
        places = self.subject.places + self.html.places + self.text.places
        if length + places * LONGEST_VALUE <= LARGE:
            return False
        longest = max((len(value) for value in values if isinstance(value, str)), default=0)
        return length + places * longest > LARGE
