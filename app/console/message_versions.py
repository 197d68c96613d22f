"""The versions of a stored message, and what differs between two (docs/console.md#stored-messages)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.db.models import Message
from app.messages.difference import FieldDifference, differences
from app.messages.history import VersionLine, contents, find_version, version_before, versions_of

MOST_LINES = 2000
"""Lines of each body that a page shows."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A version with what differs from another one, or from nothing. `versions` are all, the newest first."""

    version: VersionLine
    against: int | None
    versions: Sequence[VersionLine]
    differences: Sequence[FieldDifference]
    content: Mapping[str, str | None]

    @property
    def is_newest(self) -> bool:
        """Whether it is what the message says."""
        return self.version is self.versions[0]


def compared(session: Session, message: Message, number: int, against: int | None) -> Compared:
    """That version and what differs from another one: the one before by default. Raises `not_found`."""
    lines = versions_of(session, message)
    version = find_version(lines, number)
    other = version_before(lines, number) if against is None else find_version(lines, against).number
    said = contents(session, message, lines, [one for one in (number, other) if one is not None])
    before = dict.fromkeys(said[number]) if other is None else said[other]
    return Compared(version, other, lines, differences(before, said[number], MOST_LINES), said[number])
