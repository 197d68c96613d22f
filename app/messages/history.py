"""Reading versions of stored messages, comparing two, and writing one back (docs/contacts.md#versions).

The newest version is always what the message says. If no version has that yet, it is made of the message; it becomes a
row at the next change, with the same number.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Message, MessageVersion
from app.errors import ServiceError
from app.ids import existing
from app.messages.define import update_message
from app.messages.difference import NO_LINE_LIMIT, FieldDifference, differences
from app.messages.versions import FIELDS, content_of, is_unversioned

VERSION_LINE_COLUMNS = (
    *(MessageVersion.number, MessageVersion.time, MessageVersion.actor_kind, MessageVersion.actor),
    *(MessageVersion.via, MessageVersion.changed),
)


@dataclass(frozen=True, slots=True)
class VersionLine:
    """A version without what it says. `actor_kind`, `actor` and `via` are as in the audit log; None if the content is
    from before versions were kept."""

    number: int
    time: datetime
    actor_kind: str | None
    actor: str | None
    via: str | None
    changed: Sequence[str]
    is_stored: bool = True


def versions_of(session: Session, message: Message) -> list[VersionLine]:
    """The versions of the message, the newest first; at least one."""
    version_filter = MessageVersion.account_id == message.account_id, MessageVersion.message_id == message.id
    rows = session.execute(
        select(*VERSION_LINE_COLUMNS).where(*version_filter).order_by(MessageVersion.number.desc())
    ).all()
    lines = [VersionLine(*row) for row in rows]
    if is_unversioned(lines[0].time if lines else None, message.last_modified_time):
        number = lines[0].number + 1 if lines else 1
        lines.insert(0, VersionLine(number, message.last_modified_time, None, None, None, (), is_stored=False))
    return lines


def version_before(lines: Sequence[VersionLine], number: int) -> int | None:
    """The number of the newest version that is older; None of the oldest."""
    return next((line.number for line in lines if line.number < number), None)


def find_version(lines: Sequence[VersionLine], number: int) -> VersionLine:
    """The version of that number. Raises `not_found`."""
    for line in lines:
        if line.number == number:
            return line
    kept = f"The versions {lines[-1].number} to {lines[0].number} are kept."
    raise ServiceError("not_found", detail=f"There is no version {number}. {kept}")


def contents(
    session: Session, message: Message, lines: Sequence[VersionLine], numbers: Collection[int]
) -> dict[int, Mapping[str, str | None]]:
    """Number -> what that version of the message says, in one statement. Raises `not_found` for one that has gone
    meanwhile."""
    columns: list[Any] = [getattr(MessageVersion, name) for name in FIELDS]
    version_filter = MessageVersion.account_id == message.account_id, MessageVersion.message_id == message.id
    statement = select(MessageVersion.number, *columns).where(*version_filter, in_json(MessageVersion.number, numbers))
    contents_by_number: dict[int, Mapping[str, str | None]] = {
        row.number: content_of(row) for row in session.execute(statement)
    }
    if not lines[0].is_stored and lines[0].number in numbers:
        contents_by_number[lines[0].number] = content_of(message)
    for number in numbers:
        existing(contents_by_number.get(number), "version", number)
    return contents_by_number


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """A version with what differs from another one, or from nothing. `versions` are all, the newest first."""

    version: VersionLine
    against: int | None
    versions: Sequence[VersionLine]
    differences: Sequence[FieldDifference]
    content: Mapping[str, str | None]

    @property
    def is_newest(self) -> bool:
        """Whether the version is what the message says."""
        return self.version is self.versions[0]


def compare_version(
    session: Session, message: Message, number: int | None, against: int | None, most: int = NO_LINE_LIMIT
) -> VersionComparison:
    """Compares a version, the newest for None, with another one, the one before for None. Of each field that differs
    there are the first `most` lines. Raises `not_found`."""
    lines = versions_of(session, message)
    version = lines[0] if number is None else find_version(lines, number)
    other = version_before(lines, version.number) if against is None else find_version(lines, against).number
    said = contents(session, message, lines, [each for each in (version.number, other) if each is not None])
    content = said[version.number]
    before = dict.fromkeys(content) if other is None else said[other]
    return VersionComparison(version, other, lines, differences(before, content, most), content)


def restore_version(transaction: Transaction, message: Message, number: int) -> bool:
    """Writes back what that version says, as a new one; returns whether anything differed. Raises `not_found`, and what
    `update_message` raises."""
    lines = versions_of(transaction, message)
    find_version(lines, number)
    return update_message(transaction, message, contents(transaction, message, lines, [number])[number])
