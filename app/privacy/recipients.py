"""The recipients that are a person, with all that hangs on them: timelines, captured messages, attachments, files, and
the content of sends of which nobody else is a recipient.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, CursorResult, Row, Select, delete, exists, func, select, union, update
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
from app.privacy.place import Eraser, Pages, Shown, shown_rows
from app.recipients.conditions import has_been_forgotten
from app.recipients.row import add_steps, step_row, update_queue_entries, update_recipients
from app.recipients.states import FailReason, RecipientState
from app.recipients.timeline import TimelineStep
from app.retention.slices import delete_content
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import report_transitions, write_outcomes
from app.sends.secret_values import MASK, may_have_secrets
from app.services import Services

FORGETTER = "forgetting"
"""The worker of an entry while its outcome is written."""
_COLUMNS: tuple[Any, ...] = tuple(
    getattr(Recipient, name) for name in ("id", "account_id", "uuid", "send_id", "state", "reason")
)


def select_received(person: Person, which: ColumnElement[bool], *columns: Any) -> Select[Any]:
    """Columns of the recipients that one of the conditions of the person finds."""
    of_person = select(*columns).where(Recipient.account_id == person.account_id, which, ~has_been_forgotten())
    return of_person.order_by(Recipient.creation_time, Recipient.id)


def count_received(session: Session, person: Person) -> int:
    """How many recipients are the person."""
    found = union(*(select_received(person, which, Recipient.id).order_by(None) for which in person.received))
    return session.scalar(select(func.count()).select_from(found.subquery())) or 0


@dataclass(slots=True)
class ErasedRecipients:
    """What one transaction has erased. `uuids` name the files of folder transports."""

    found: int
    erased: int = 0
    dropped: int = 0
    captured: int = 0
    sends: int = 0


def lock_received(transaction: Transaction, person: Person, which: ColumnElement[bool], size: int) -> list[Row[Any]]:
    """The next recipients of the person, locked with their entries, without those that are being handed over."""
    entry = select(QueueEntry.state).where(QueueEntry.recipient_id == Recipient.id).correlate(Recipient)
    is_sent_now = entry.scalar_subquery().is_not_distinct_from(RecipientState.SENDING.value)
    found = transaction.execute(select_received(person, which, Recipient.id).where(~is_sent_now).limit(size))
    ids = sorted(found.scalars())
    if not ids:
        return []
    chosen = in_json(Recipient.id, ids), between_ids(Recipient.id, ids)
    rows = transaction.execute(
        select(*_COLUMNS).where(*chosen).order_by(Recipient.id).with_for_update(key_share=True)
    ).all()
    states = select(QueueEntry.recipient_id, QueueEntry.state).where(in_json(QueueEntry.recipient_id, ids))
    locked = transaction.execute(states.order_by(QueueEntry.recipient_id).with_for_update())
    entries = {row.recipient_id: row.state for row in locked}
    return [row for row in rows if entries.get(row.id) != RecipientState.SENDING]


def being_handed_over(session: Session, person: Person) -> list[str]:
    """The uuids of messages that a worker is handing over at this moment."""
    found: set[str] = set()
    for which in person.received:
        statement = select(Recipient.uuid).join(QueueEntry, QueueEntry.recipient_id == Recipient.id)
        of_person = Recipient.account_id == person.account_id, which, QueueEntry.state == RecipientState.SENDING
        found.update(session.scalars(statement.where(*of_person)))
    return sorted(found)


def erase_recipients(transaction: Transaction, rules: RetryRules, rows: Sequence[Row[Any]]) -> ErasedRecipients:
    """Erases what the locked recipients have. One whose message waits fails: it is not sent any more."""
    ids, send_ids = [row.id for row in rows], {row.send_id for row in rows}
    erased = ErasedRecipients(len(rows), len(rows))
    _blank(transaction, rows)
    erased.captured = _delete(transaction, CapturedMessage, CapturedMessage.recipient_id, ids)
    of_sends = in_json(Attachment.send_id, send_ids), in_json(Attachment.recipient_id, ids)
    transaction.connection().execute(delete(table_of(Attachment)).where(*of_sends))
    erased.dropped = _drop_waiting(transaction, rules, ids)
    moment = now()
    steps = [step_row(row.account_id, row.id, TimelineStep.FORGOTTEN, None, moment) for row in rows]
    add_steps(transaction, steps)
    erased.sends = _erase_content(transaction, send_ids)
    return erased


def _blank(transaction: Transaction, rows: Sequence[Row[Any]]) -> None:
    """The reason of a failure is one of our words, that of a bounce a text of the other side."""
    ids = [row.id for row in rows]
    update_recipients(transaction, ids, email=None, mobile=None, values={}, gateway_id=None)
    told = [row.id for row in rows if row.state != RecipientState.FAILED and row.reason is not None]
    if told:
        update_recipients(transaction, told, reason=None)
    columns = table_of(RecipientStep).c
    chosen = in_json(columns.recipient_id, ids), between_ids(columns.recipient_id, ids)
    blanked = update(table_of(RecipientStep)).where(*chosen).values(detail=None, note=None, country=None)
    transaction.connection().execute(blanked)


def _drop_waiting(transaction: Transaction, rules: RetryRules, ids: Collection[int]) -> int:
    entries = select(QueueEntry.recipient_id, QueueEntry.attempts).where(in_json(QueueEntry.recipient_id, ids))
    waiting = transaction.execute(entries.order_by(QueueEntry.recipient_id)).all()
    if not waiting:
        return 0
    dropped = [row.recipient_id for row in waiting]
    update_queue_entries(transaction, dropped, state=RecipientState.SENDING, worker=FORGETTER)
    moment = now()
    results = [
        AttemptResult(row.recipient_id, row.attempts, None, moment, skip=FailReason.FORGOTTEN) for row in waiting
    ]
    transitions = write_outcomes(transaction, FORGETTER, results, rules)
    transaction.after_commit(lambda: report_transitions(transitions))
    return len(dropped)


def _erase_content(transaction: Transaction, send_ids: Collection[int]) -> int:
    """That of sends all of whose recipients are forgotten: bodies, attachments, and the targets of links."""
    other: Any = aliased(Recipient)
    others = exists().where(other.send_id == Send.id, ~has_been_forgotten(other))
    statement = select(Send.id).where(in_json(Send.id, send_ids), ~others).order_by(Send.id)
    whole = list(transaction.scalars(statement))
    if whole:
        delete_content(transaction, whole, (), now())
        _delete(transaction, SendLink, SendLink.send_id, whole)
        emptied = update(table_of(Send)).where(in_json(table_of(Send).c.id, whole))
        transaction.connection().execute(emptied.values(reply_to=None, bcc_address=None))
    return len(whole)


def _delete(transaction: Transaction, model: Any, column: Any, values: Collection[int]) -> int:
    statement = delete(table_of(model)).where(in_json(column, values))
    deleted: CursorResult[Any] = transaction.connection().execute(statement)
    return deleted.rowcount


# Messages to a person, and sends that name one, as places.

READ = 20
"""Messages that are read at once, with their attachments."""
_OF_SEND = ("group_name", "subject", "from_name", "from_address", "body_html", "body_text", "content_purged_time")


def read_received(services: Services, session: Session, person: Person) -> Pages:
    """The messages, each with its timeline, its content and what test keys have captured."""
    folders, seen = message_folders(services), set[int]()
    for which in person.received:
        columns = (*table_of(Recipient).c, *(table_of(Send).c[name] for name in _OF_SEND))
        statement = select(*columns).join(Send, Send.id == Recipient.send_id)
        of_person = Recipient.account_id == person.account_id, which, ~has_been_forgotten()
        order = Recipient.creation_time, Recipient.id
        for page in pages_of(session, statement.where(*of_person), order, size=READ):
            fresh = [row for row in page if row.id not in seen]
            seen.update(row.id for row in fresh)
            if fresh:
                yield _with_details(session, fresh, folders)


def _with_details(session: Session, rows: Sequence[Row[Any]], folders: Any) -> list[Shown]:
    ids = [row.id for row in rows]
    steps = _by_recipient(session, RecipientStep, ids, "account_id", "recipient_id")
    captured = _by_recipient(session, CapturedMessage, ids, "account_id", "recipient_id")
    attachments = _attachments(session, {row.send_id for row in rows})
    hidden = "account_id", "place_0", "place_1", "content_purged_time"
    return [
        {
            **shown,
            "values": {name: MASK if value is None else value for name, value in row._mapping["values"].items()},
            "timeline": steps[row.id],
            "attachments": [*attachments[row.send_id, None], *attachments[row.send_id, row.id]],
            "captured": _without_secrets(row, captured[row.id]),
            "files": [str(path) for path in files_of(folders, row.uuid)],
        }
        for row, shown in zip(rows, shown_rows(rows, *hidden), strict=True)
    ]


def _without_secrets(recipient: Row[Any], captured: Iterable[Shown]) -> list[Shown]:
    """What was captured, without the content of a message that may have secret values."""
    secret = may_have_secrets(recipient._mapping["values"], recipient.content_purged_time)
    return [{**one, "content": MASK} if secret else one for one in captured]


def _by_recipient(session: Session, model: Any, ids: Sequence[int], *hidden: str) -> Mapping[int, list[Shown]]:
    columns = table_of(model).c
    chosen = in_json(columns.recipient_id, ids), between_ids(columns.recipient_id, ids)
    rows = session.execute(select(table_of(model)).where(*chosen).order_by(columns.id)).all()
    found: dict[int, list[Shown]] = defaultdict(list)
    for row, shown in zip(rows, shown_rows(rows, *hidden), strict=True):
        found[row.recipient_id].append(shown)
    return found


def _attachments(session: Session, send_ids: Iterable[int]) -> Mapping[tuple[int, int | None], list[Shown]]:
    columns: list[Any] = [Attachment.send_id, Attachment.recipient_id]
    columns += [Attachment.name, Attachment.mime_type, Attachment.content]
    statement = select(*columns).where(in_json(Attachment.send_id, send_ids))
    rows = session.execute(statement.order_by(Attachment.position, Attachment.id)).all()
    found: dict[tuple[int, int | None], list[Shown]] = defaultdict(list)
    for row, shown in zip(rows, shown_rows(rows, "send_id", "recipient_id"), strict=True):
        found[row.send_id, row.recipient_id].append(shown)
    return found


def erase_received(eraser: Eraser, person: Person) -> Mapping[str, int]:
    """Erases the messages that are not being handed over at this moment, and drops those that wait."""
    total: Counter[str] = Counter()
    folders, rules = message_folders(eraser.services), RetryRules.of(eraser.services.settings)

    def work(transaction: Transaction, which: ColumnElement[bool], size: int) -> Counter[str]:
        rows = lock_received(transaction, person, which, size)
        if not rows:
            return Counter()
        files = [path for row in rows for path in files_of(folders, row.uuid)]
        for path in files:
            path.unlink(missing_ok=True)
        erased = erase_recipients(transaction, rules, rows)
        return Counter(
            {
                **{"recipients": erased.erased, "messages not sent": erased.dropped, "files": len(files)},
                **{"captured messages": erased.captured, "contents of sends": erased.sends},
            }
        )

    for which in person.received:
        while found := eraser.take(size := eraser.turns.size, partial(work, which=which, size=size)):
            total += found
    return total


def read_replied(_services: Services, session: Session, person: Person) -> Pages:
    """Sends with the address for replies or for a blind copy."""
    for rows in _named_in_sends(session, person):
        yield shown_rows(rows)


def erase_replied(eraser: Eraser, person: Person) -> Mapping[str, int]:
    """Removes the address from the sends."""
    erased = 0
    with eraser.services.database.read() as session:
        for rows in _named_in_sends(session, person):
            eraser.take(len(rows), partial(_remove_from_sends, person=person, ids=[row.id for row in rows]))
            erased += len(rows)
    return {"sends that named the address": erased}


def _named_in_sends(session: Session, person: Person) -> Iterable[Sequence[Row[Any]]]:
    """Page by page, each of the two columns by its index; a send may come twice."""
    if person.kind != "email":
        return
    columns: tuple[Any, ...] = (Send.id, Send.creation_time, Send.reply_to, Send.bcc_address)
    for column in (Send.reply_to, Send.bcc_address):
        key = func.lower(column)
        named = Send.account_id == person.account_id, key.in_(person.forms), column.is_not(None)
        yield from pages_of(session, select(*columns).where(*named), (Send.account_id, key, Send.id))


def _remove_from_sends(transaction: Transaction, person: Person, ids: Sequence[int]) -> None:
    columns = table_of(Send).c
    for name in ("reply_to", "bcc_address"):
        chosen = in_json(columns.id, ids), func.lower(columns[name]).in_(person.forms)
        transaction.connection().execute(update(table_of(Send)).where(*chosen).values({name: None}))
