"""The recipients that are a person, with all that hangs on them: timelines, captured messages, attachments, files, and
the content of sends of which nobody else is a recipient.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, case, delete, exists, func, select, union, update
from sqlalchemy.orm import Session, aliased

from app.clock import now
from app.db.database import Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import (
    Attachment,
    CapturedMessage,
    QueueEntry,
    Recipient,
    RecipientStep,
    Send,
    SendLink,
    table_of,
)
from app.db.pages import pages_of
from app.privacy.files import files_of, message_folders
from app.privacy.person import Person
from app.privacy.place import Eraser, Pages, Place, Shown, delete_rows, emptied, shown_row
from app.recipients.conditions import has_been_forgotten
from app.recipients.row import add_steps, step_row, update_recipients
from app.recipients.states import FailReason, RecipientState
from app.recipients.timeline import TimelineStep
from app.retention.slices import delete_content, delete_metadata_labels
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.settle import settle
from app.sends.outcomes.transitions import RetryRules
from app.sends.secret_values import MASK, may_have_secrets
from app.services import Services

FORGETTER = "forgetting"
"""The worker of an entry while its outcome is written."""
MESSAGES_PER_PAGE = 20
"""Messages that are read at once, with their attachments."""
ORDER = Recipient.creation_time, Recipient.id
_SEND_COLUMNS = (
    *("group_name", "subject", "from_name", "from_address", "headers", "body_html", "body_text"),
    "content_purged_time",
)


def _received(person: Person, which: ColumnElement[bool], *columns: Any) -> Select[Any]:
    """Columns of the recipients that one of the conditions of the person finds."""
    return select(*columns).where(Recipient.account_id == person.account_id, which, ~has_been_forgotten())


def count_received(session: Session, person: Person) -> int:
    """How many recipients are the person."""
    recipient_ids = union(*(_received(person, which, Recipient.id) for which in person.received))
    return session.scalar(select(func.count()).select_from(recipient_ids.subquery())) or 0


def being_handed_over(session: Session, person: Person) -> list[str]:
    """The uuids of messages that a worker is handing over at this moment."""
    uuids: set[str] = set()
    for which in person.received:
        statement = select(Recipient.uuid).join(QueueEntry, QueueEntry.recipient_id == Recipient.id)
        is_being_sent = Recipient.account_id == person.account_id, which, QueueEntry.state == RecipientState.SENDING
        uuids.update(session.scalars(statement.where(*is_being_sent)))
    return sorted(uuids)


# Handing out.


def _read(services: Services, session: Session, person: Person) -> Pages:
    """The messages, each with its timeline, its content and what test keys have captured."""
    folders, seen = message_folders(services), set[int]()
    columns = (*table_of(Recipient).c, *(table_of(Send).c[name] for name in _SEND_COLUMNS))
    for which in person.received:
        statement = _received(person, which, *columns).join(Send, Send.id == Recipient.send_id)
        for page in pages_of(session, statement, ORDER, size=MESSAGES_PER_PAGE):
            fresh = [row for row in page if row.id not in seen]
            seen.update(row.id for row in fresh)
            if fresh:
                yield _with_details(session, fresh, folders)


def _with_details(session: Session, rows: Sequence[Row[Any]], folders: Sequence[Path]) -> list[Shown]:
    ids = [row.id for row in rows]
    steps, captured = (_by_recipient(session, model, ids) for model in (RecipientStep, CapturedMessage))
    attachments = _attachments(session, {row.send_id for row in rows})
    return [
        {
            **shown_row(row, "account_id", "content_purged_time"),
            "values": {name: MASK if value is None else value for name, value in row._mapping["values"].items()},
            "timeline": steps[row.id],
            "attachments": [*attachments[row.send_id, None], *attachments[row.send_id, row.id]],
            "captured": _without_secrets(row, captured[row.id]),
            "files": [str(path) for path in files_of(folders, row.uuid)],
        }
        for row in rows
    ]


def _without_secrets(recipient: Row[Any], captured: Iterable[Shown]) -> list[Shown]:
    """What was captured, without the content of a message that may have secret values."""
    secret = may_have_secrets(recipient._mapping["values"], recipient.content_purged_time)
    return [{**message, "content": MASK} if secret else message for message in captured]


def _by_recipient(session: Session, model: Any, ids: Sequence[int]) -> Mapping[int, list[Shown]]:
    columns = table_of(model).c
    chosen = in_json(columns.recipient_id, ids), between_ids(columns.recipient_id, ids)
    rows = session.execute(select(table_of(model)).where(*chosen).order_by(columns.id))
    return _grouped(rows, attrgetter("recipient_id"), "account_id", "recipient_id")


def _attachments(session: Session, send_ids: Iterable[int]) -> Mapping[tuple[int, int | None], list[Shown]]:
    columns: list[Any] = [Attachment.send_id, Attachment.recipient_id]
    columns += [Attachment.name, Attachment.mime_type, Attachment.content]
    statement = select(*columns).where(in_json(Attachment.send_id, send_ids))
    rows = session.execute(statement.order_by(Attachment.position, Attachment.id))
    return _grouped(rows, attrgetter("send_id", "recipient_id"), "send_id", "recipient_id")


def _grouped(rows: Iterable[Row[Any]], key: Callable[[Row[Any]], Any], *hidden: str) -> Mapping[Any, list[Shown]]:
    rows_by_key: dict[Any, list[Shown]] = defaultdict(list)
    for row in rows:
        rows_by_key[key(row)].append(shown_row(row, *hidden))
    return rows_by_key


# Erasing.


def _erase_all(eraser: Eraser, person: Person) -> Mapping[str, int]:
    """Erases the messages that are not being handed over at this moment, and drops those that wait."""
    total: Counter[str] = Counter()
    folders, rules = message_folders(eraser.services), RetryRules.of(eraser.services.settings)
    for which in person.received:
        while (ids := _next(eraser, person, which)) and (erased := eraser.take(len(ids), _erase, folders, rules, ids)):
            total += erased
    return total


def _next(eraser: Eraser, person: Person, which: ColumnElement[bool]) -> list[int]:
    """In a session of its own: on SQLite, a session goes on seeing what its first statement saw."""
    entry = select(QueueEntry.state).where(QueueEntry.recipient_id == Recipient.id).correlate(Recipient)
    is_sent_now = entry.scalar_subquery().is_not_distinct_from(RecipientState.SENDING.value)
    statement = _received(person, which, Recipient.id).where(~is_sent_now).order_by(*ORDER)
    with eraser.services.database.read() as session:
        return sorted(session.scalars(statement.limit(eraser.turns.size)))


def _erase(
    transaction: Transaction, folders: Sequence[Path], rules: RetryRules, recipient_ids: Sequence[int]
) -> Counter[str]:
    """Erases what the recipients have. One whose message waits fails: it is not sent any more."""
    rows = _locked(transaction, recipient_ids)
    if not rows:
        return Counter()
    ids, send_ids = [row.id for row in rows], {row.send_id for row in rows}
    files = [path for row in rows for path in files_of(folders, row.uuid)]
    for path in files:
        path.unlink(missing_ok=True)
    _blank(transaction, ids)
    captured = delete_rows(transaction, table_of(CapturedMessage).c.recipient_id, ids)
    is_of_sends = in_json(Attachment.send_id, send_ids), in_json(Attachment.recipient_id, ids)
    transaction.connection().execute(delete(table_of(Attachment)).where(*is_of_sends))
    _erase_headers(transaction, send_ids)
    dropped, moment = _drop_waiting(transaction, rules, ids), now()
    add_steps(transaction, [step_row(row.account_id, row.id, TimelineStep.FORGOTTEN, None, moment) for row in rows])
    return Counter(
        {
            **{"recipients": len(rows), "messages not sent": dropped, "files": len(files)},
            **{"captured messages": captured, "contents of sends": _erase_content(transaction, send_ids)},
        }
    )


def _locked(transaction: Transaction, recipient_ids: Sequence[int]) -> list[Row[Any]]:
    """The recipients, locked with their entries, without those that are being handed over."""
    columns: tuple[Any, ...] = (Recipient.id, Recipient.account_id, Recipient.uuid, Recipient.send_id)
    chosen = in_json(Recipient.id, recipient_ids), between_ids(Recipient.id, recipient_ids)
    rows = transaction.execute(
        select(*columns).where(*chosen).order_by(Recipient.id).with_for_update(key_share=True)
    ).all()
    states = select(QueueEntry.recipient_id, QueueEntry.state).where(in_json(QueueEntry.recipient_id, recipient_ids))
    locked = transaction.execute(states.order_by(QueueEntry.recipient_id).with_for_update())
    entries = {row.recipient_id: row.state for row in locked}
    return [row for row in rows if entries.get(row.id) != RecipientState.SENDING]


def _blank(transaction: Transaction, ids: Collection[int]) -> None:
    """The reason of a failure is one of our words, that of a bounce a text of the other side."""
    reason = case((Recipient.state == RecipientState.FAILED, Recipient.reason))
    update_recipients(transaction, ids, **{**emptied(Recipient, "recipients"), "values": {}, "reason": reason})
    delete_metadata_labels(transaction, ids)
    columns = table_of(RecipientStep).c
    chosen = in_json(columns.recipient_id, ids), between_ids(columns.recipient_id, ids)
    blanked = update(table_of(RecipientStep)).where(*chosen).values(emptied(RecipientStep, "recipients"))
    transaction.connection().execute(blanked)


def _drop_waiting(transaction: Transaction, rules: RetryRules, ids: Collection[int]) -> int:
    entries = select(QueueEntry.recipient_id, QueueEntry.attempts).where(in_json(QueueEntry.recipient_id, ids))
    waiting = transaction.execute(entries.order_by(QueueEntry.recipient_id)).all()
    if not waiting:
        return 0
    moment = now()
    results = [
        AttemptResult(row.recipient_id, row.attempts, None, moment, skip=FailReason.FORGOTTEN) for row in waiting
    ]
    settle(transaction, FORGETTER, results, rules)
    return len(results)


def _erase_headers(transaction: Transaction, send_ids: Collection[int]) -> None:
    """Erases the fields of the authors of mails, such as `To`, also where others get the mail."""
    sends = table_of(Send)
    written = in_json(sends.c.id, send_ids), sends.c.headers.is_not(None)
    transaction.connection().execute(update(sends).where(*written).values({"headers": None}))


def _erase_content(transaction: Transaction, send_ids: Collection[int]) -> int:
    """Erases bodies, attachments and the targets of links of sends all of whose recipients are forgotten."""
    other: Any = aliased(Recipient)
    others = exists().where(other.send_id == Send.id, ~has_been_forgotten(other))
    statement = select(Send.id).where(in_json(Send.id, send_ids), ~others).order_by(Send.id)
    whole = list(transaction.scalars(statement))
    if whole:
        delete_content(transaction, whole, (), now())
        delete_rows(transaction, table_of(SendLink).c.send_id, whole)
        chosen = in_json(table_of(Send).c.id, whole)
        unnamed = update(table_of(Send)).where(chosen).values(emptied(Send, "named_in_sends"))
        transaction.connection().execute(unnamed)
    return len(whole)


RECIPIENTS = Place(
    "recipients",
    "messages to the person: address, values, timeline, attachments, content, and what test keys have captured",
    _read,
    _erase_all,
)
