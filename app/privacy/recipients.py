"""The recipients that are a person, with all that hangs on them: timelines, captured messages, attachments, files, and
the content of sends of which nobody else is a recipient."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
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
from app.privacy.person import Person
from app.recipients.conditions import has_been_forgotten
from app.recipients.row import step_row
from app.recipients.states import FailReason, RecipientState
from app.recipients.store import add_steps, update_queue_entries, update_recipients
from app.recipients.timeline import TimelineStep
from app.retention.erase import delete_content
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import report_transitions, write_outcomes

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
