"""Keeping versions of stored messages (docs/contacts.md#versions).

What a transaction changes is written at its end, by a fixed number of statements however many messages that are: with
the rows of the changed messages locked, so that two changes at once get two numbers, and from the database, so that a
version has what the other one has changed, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Row, delete, func, insert, literal, select
from sqlalchemy.orm import aliased
from sqlalchemy.types import TypeEngine

from app.audit.actor import current_actor
from app.audit.values import without_addresses
from app.db.bulk import insert_rows, rows_given_to
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Message, MessageVersion, table_of
from app.db.prepared import DriverStatement
from app.db.types import Json, dump_json

FIELDS = ("name", "subject", "from_name", "from_address", "reply_to", "thumbnail_url", "body_html", "body_text")
"""What a version keeps. The type of a message never changes."""
MAX_VERSIONS = 50
"""Versions that are kept of one message; older ones are deleted."""
PENDING_KEY = "message versions"
CHANGE_COLUMNS: Mapping[str, TypeEngine[Any]] = {"message_id": BigInteger(), "changed": Json}
UNKNOWN_ACTOR = {"actor_kind": None, "actor": None, "via": None}


@dataclass(frozen=True, slots=True)
class FormerContent:
    """What a message said before a transaction changed it."""

    time: datetime
    content: Mapping[str, str | None]


def content_of(row: Any) -> dict[str, str | None]:
    """The fields of a message, or of a version."""
    return {name: getattr(row, name) for name in FIELDS}


def former_content_of(message: Message) -> FormerContent:
    """What the message says, to be told to `keep_version` once it is changed."""
    return FormerContent(message.last_modified_time, content_of(message))


def keep_version(transaction: Transaction, message: Message, former: FormerContent | None) -> None:
    """Has the transaction keep what the message says at its end; `former` is None of a new message. The copy of a test
    account has no versions: those of its original are the history."""
    if message.copy_of is None:
        pending = transaction.at_commit.setdefault(PENDING_KEY, _PendingVersions(transaction))
        assert isinstance(pending, _PendingVersions)  # noqa: S101 - nothing else has this name
        pending.messages.setdefault(message.id, (message, former))


class _PendingVersions:
    """The messages that a transaction has created or changed; called at its end, it writes their versions."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.messages: dict[int, tuple[Message, FormerContent | None]] = {}

    def __call__(self) -> Sequence[DriverStatement]:
        given, formers = [], {}
        for message_id, (message, former) in self.messages.items():
            changed = [] if former is None else differing_fields(former.content, content_of(message))
            if former is None or changed:
                given.append({"message_id": message_id, "changed": changed})
            if former is not None and changed:
                formers[message_id] = former
        if formers:
            _write_former(self._transaction, formers)
        if given:
            _write_present(self._transaction, given)
        if formers:
            _delete_oldest(self._transaction, formers)
        return []


def differing_fields(before: Mapping[str, str | None], other: Mapping[str, str | None]) -> list[str]:
    """The names of the fields that differ."""
    return [name for name in FIELDS if before[name] != other[name]]


def is_unversioned(latest: datetime | None, modified: datetime) -> bool:
    """Whether a message says what no version has: the latest, if there is one, is older. So it is if nobody has changed
    the message since versions are kept, or a process of a release from before has."""
    return latest is None or latest < modified


def _write_former(transaction: Transaction, formers: Mapping[int, FormerContent]) -> None:
    """Writes versions of what messages said before, where there are none."""
    numbers = select(MessageVersion.number).where(MessageVersion.message_id == Message.id)
    newest = numbers.order_by(MessageVersion.number.desc()).limit(1)
    columns: tuple[ColumnElement[Any], ...] = (
        newest.scalar_subquery().label("number"),
        newest.with_only_columns(MessageVersion.time).scalar_subquery().label("time"),
    )
    statement = select(Message.id, Message.account_id, *columns).where(in_json(Message.id, formers))
    rows = [
        _former_row(row, former)
        for row in transaction.connection().execute(statement)
        if is_unversioned(row.time, (former := formers[row.id]).time)
    ]
    insert_rows(transaction, MessageVersion, rows, {"changed": [], **UNKNOWN_ACTOR})


def _former_row(row: Row[Any], former: FormerContent) -> dict[str, Any]:
    key = {"account_id": row.account_id, "message_id": row.id, "number": (row.number or 0) + 1}
    return {**key, "time": former.time, **former.content}


def _write_present(transaction: Transaction, given: Sequence[Mapping[str, Any]]) -> None:
    """Writes versions of what messages say now."""
    actor, changes = current_actor(), rows_given_to(transaction, "changes", CHANGE_COLUMNS)
    latest = select(func.max(MessageVersion.number)).where(MessageVersion.message_id == Message.id).scalar_subquery()
    columns: dict[str, ColumnElement[Any]] = {
        "account_id": table_of(Message).c.account_id,
        "message_id": table_of(Message).c.id,
        "number": func.coalesce(latest, 0) + 1,
        "time": table_of(Message).c.last_modified_time,
        "actor_kind": literal(actor.kind),
        "actor": literal(without_addresses(actor.name)),
        "via": literal(actor.via),
        "changed": changes.c.changed,
        **{name: table_of(Message).c[name] for name in FIELDS},
    }
    now = select(*columns.values()).join_from(Message, changes, changes.c.message_id == Message.id)
    statement = insert(table_of(MessageVersion)).from_select([*columns], now)
    transaction.connection().execute(statement, {"changes": dump_json(given)})


def _delete_oldest(transaction: Transaction, message_ids: Collection[int]) -> None:
    """Deletes the versions beyond the most that a message has."""
    table, newest = table_of(MessageVersion), aliased(MessageVersion)
    latest = select(func.max(newest.number)).where(newest.message_id == table.c.message_id).scalar_subquery()
    oldest = in_json(table.c.message_id, message_ids), table.c.number <= latest - MAX_VERSIONS
    transaction.connection().execute(delete(table).where(*oldest))
