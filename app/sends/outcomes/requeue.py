"""Requeueing recipients whose messages did not arrive: a decision of people, once the cause is gone.

Recipients that are `bounced` or `failed` can be retried, and `uncertain` ones without the wait. A queued recipient is
attempted anyway, and a message that was sent would arrive twice. A relay that refuses everything of the account is
tried at once. The rules are the same for one recipient and for many (app/bulk_actions), and the number of statements,
too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, String, case, cast, func, select
from sqlalchemy.orm import Session

from app.audit.record import Act, record
from app.clock import now
from app.db.bulk import insert_rows
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.id_bounds import between_ids
from app.db.in_json import in_json
from app.db.models import QueueEntry, Recipient, RecipientStep, RelayRefusal, Send
from app.errors import ServiceError
from app.recipients.read import find_recipient
from app.recipients.row import step_row
from app.recipients.states import RecipientState
from app.recipients.store import add_steps, update_queue_entries, update_recipients
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.relay_refusals import try_now
from app.sends.outcomes.retryable import RETRYABLE, Known, LeftOut, Refusal, refusals

COUNTERS = {RecipientState.BOUNCED: "bounced", RecipientState.FAILED: "failed_contacts"}
"""State -> the counter of the group that counts it."""
COLUMNS: tuple[Any, ...] = (
    *(Recipient.id, Recipient.account_id, Recipient.group_id, Recipient.send_id, Recipient.type, Recipient.email),
    *(Recipient.mobile, Recipient.state, Recipient.reason, Recipient.attempts),
    # Most recipients have no secret values: the values of those that may have some are read.
    case((cast(Recipient.values, String).contains("null"), Recipient.values)).label("secrets"),
)

Looked = Mapping[int, Any]
"""Rows by their id."""


@dataclass(frozen=True, slots=True)
class Requeued:
    """The ids of the recipients that were put into the queue, and why others were not."""

    ids: Sequence[int]
    refused: Mapping[int, Refusal]


def requeue(transaction: Transaction, uuid: str) -> Recipient:
    """Puts a recipient back into the queue, due now; a failure no longer counts. Recorded in the audit log.

    Raises `ServiceError`: `invalid_id` for an unknown uuid, `conflict` for one that cannot be retried.
    """
    recipient = find_recipient(transaction, uuid)
    refused = requeue_all(transaction, [recipient.id]).refused
    for refusal in refused.values():
        raise ServiceError("conflict", field="uuid", detail=refusal.detail)
    record(transaction, Act("recipient.retried", recipient.account_id, recipient.uuid))
    transaction.refresh(recipient)
    return recipient


def requeue_all(
    transaction: Transaction,
    ids: Collection[int],
    *conditions: ColumnElement[bool],
    states: Collection[RecipientState] = RETRYABLE,
) -> Requeued:
    """The same for recipients that are in one of these states and meet the conditions."""
    if not ids:
        return Requeued([], {})
    sends = _lock_sends(transaction, ids)
    rows = transaction.execute(_recipients(ids, conditions).with_for_update(key_share=True)).all()
    entries = _entries(transaction, ids, lock=True)
    found = _known(rows, entries, sends)
    refused = refusals(transaction, found, states)
    refused |= dict.fromkeys({*ids} - {row.id for row in rows}, Refusal(LeftOut.CHANGED, "it does not match any more"))
    _write(transaction, [one for one in found if one.id not in refused])
    return Requeued([one.id for one in found if one.id not in refused], refused)


def would_refuse(session: Session, ids: Collection[int], states: Collection[RecipientState]) -> Mapping[int, Refusal]:
    """Which of the recipients would not be requeued now, and why."""
    rows = session.execute(_recipients(ids, ())).all()
    sends = select(Send.id, Send.content_purged_time, Send.priority)
    of_rows = session.execute(sends.where(in_json(Send.id, {row.send_id for row in rows})))
    found = _known(rows, _entries(session, ids, lock=False), {row.id: row for row in of_rows})
    return refusals(session, found, states)


def _lock_sends(transaction: Transaction, ids: Collection[int]) -> Looked:
    """Keeps the content of the recipients' sends from being purged. Sends are locked before their recipients, as when
    purging."""
    of_ids = in_json(Recipient.id, ids), between_ids(Recipient.id, ids)
    send_ids = transaction.scalars(select(Recipient.send_id).where(*of_ids).distinct()).all()
    sends = select(Send.id, Send.content_purged_time, Send.priority).where(in_json(Send.id, send_ids))
    return {row.id: row for row in transaction.execute(sends.order_by(Send.id).with_for_update(read=True))}


def _recipients(ids: Collection[int], conditions: Sequence[ColumnElement[bool]]) -> Select[Any]:
    of_ids = in_json(Recipient.id, ids), between_ids(Recipient.id, ids)
    return select(*COLUMNS).where(*of_ids, *conditions).order_by(Recipient.id)


def _entries(session: Session, ids: Collection[int], *, lock: bool) -> Looked:
    """The queue entries of locked recipients; locked, so that no worker claims them meanwhile."""
    entries = select(QueueEntry.recipient_id, QueueEntry.state).where(in_json(QueueEntry.recipient_id, ids))
    in_order = entries.order_by(QueueEntry.recipient_id)
    return {row.recipient_id: row for row in session.execute(in_order.with_for_update() if lock else in_order)}


def _known(rows: Sequence[Row[Any]], entries: Looked, sends: Looked) -> Sequence[Known]:
    return [
        Known(row, RecipientState(entries[row.id].state if row.id in entries else row.state), sends.get(row.send_id))
        for row in rows
    ]


def _write(transaction: Transaction, found: Sequence[Known]) -> None:
    if not found:
        return
    moment, rows = now(), [one.row for one in found]
    try_now(transaction, in_json(RelayRefusal.account_id, {row.account_id for row in rows}))
    failed = failed_times(transaction, [one.id for one in found if one.state in COUNTERS])
    for one in found:
        if one.state in COUNTERS:
            failed_time = failed.get(one.id, moment)
            counters = {COUNTERS[one.state]: -1}
            count_in_group(transaction, one.row.account_id, one.row.group_id, failed_time, **counters)
    steps = (
        step_row(one.row.account_id, one.id, TimelineStep.REQUEUED, _was(one.state, one.row.reason), moment)
        for one in found
    )
    add_steps(transaction, [*steps])
    waiting = [one.id for one in found if one.state is RecipientState.UNCERTAIN]
    if waiting:
        times = {"due_time": moment, "ready_time": moment}
        update_queue_entries(transaction, waiting, state=RecipientState.QUEUED, **times)
    settled = [_entry(one) for one in found if one.state is not RecipientState.UNCERTAIN]
    shared: dict[str, Any] = {"state": RecipientState.QUEUED, "due_time": moment, "ready_time": moment}
    insert_rows(transaction, QueueEntry, settled, shared)
    values = {"state": RecipientState.QUEUED, "reason": None, "sent_time": None}
    update_recipients(transaction, [row.id for row in rows], **values)


def _was(state: RecipientState, reason: str | None) -> str:
    return f"was {state}: {reason or 'no reason known'}"


def _entry(one: Known) -> dict[str, Any]:
    """The count of attempts continues: it distinguishes results in journals."""
    return {
        "recipient_id": one.id,
        "account_id": one.row.account_id,
        "type": one.row.type,
        "priority": one.priority,
        "attempts": one.row.attempts,
    }


def failed_times(transaction: Transaction, ids: Collection[int]) -> Mapping[int, datetime]:
    """When the recipients bounced or failed: they are subtracted from those hours."""
    column, outcomes = RecipientStep.recipient_id, (TimelineStep.BOUNCED, TimelineStep.FAILED)
    of_ids = in_json(column, ids), between_ids(column, ids), RecipientStep.step.in_(outcomes)
    found = transaction.execute(select(column, func.max(RecipientStep.time)).where(*of_ids).group_by(column))
    return {row[0]: row[1] for row in found}
