"""Requeueing recipients whose messages did not arrive: a decision of people, once the cause is gone.

Recipients that are `bounced` or `failed` can be retried, and `uncertain` ones without the wait. A queued recipient is
attempted anyway, and a message that was sent would arrive twice. A relay that refuses everything of the account is
tried at once. The rules are the same for one recipient and for many (app/bulk_actions), and the number of statements,
too.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, Select, String, case, func, select
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KIND_BY_TYPE, AccountAddress
from app.audit.record import Act, record
from app.clock import now, timestamp
from app.db.bulk import insert_rows
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import QueueEntry, Recipient, RecipientStep, RelayRefusal, Send
from app.errors import ServiceError
from app.recipients.read import find_recipient
from app.recipients.row import add_steps, step_row, update_queue_entries, update_recipients
from app.recipients.states import NOT_RETRYABLE, RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.relay_refusals import try_now
from app.sends.skipping import load_suppressions

# Which recipients can be retried, and why others cannot: one rule for one recipient and for many.

RETRYABLE = (RecipientState.BOUNCED, RecipientState.FAILED, RecipientState.UNCERTAIN)


class LeftOut(enum.StrEnum):
    """Why a recipient is not retried, as bulk actions count it (docs/console.md#bulk-actions)."""

    STATE = "state"
    FORGOTTEN = "forgotten"
    NO_CONTACT = "no_contact"
    BLOCKED = "blocked"
    CONTENT_PURGED = "content_purged"
    SECRET_VALUES_GONE = "secret_values_gone"  # noqa: S105 - a reason, no secret
    CHANGED = "changed"


class Refusal(NamedTuple):
    """Why a recipient is not retried: as it is counted, and in words."""

    reason: LeftOut
    detail: str


class Known(NamedTuple):
    """What the rule needs to know of a recipient: its row, its state with that of its queue entry, and its send."""

    row: Row[Any]
    state: RecipientState
    send: Row[Any] | None

    @property
    def id(self) -> int:
        """Of the recipient."""
        return int(self.row.id)

    @property
    def priority(self) -> str:
        """The priority of the recipient's send."""
        return "normal" if self.send is None else str(self.send.priority)

    @property
    def address(self) -> AccountAddress:
        """The address as blocked addresses have it."""
        text = self.row.email or self.row.mobile
        return AccountAddress.of(self.row.account_id, ADDRESS_KIND_BY_TYPE[self.row.type], text or "")


def refusals(session: Session, found: Sequence[Known], states: Collection[RecipientState]) -> dict[int, Refusal]:
    """Those that cannot be retried. They are of one account, and their number does not change that of the
    statements."""
    forgotten = _forgotten(session, [one.id for one in found])
    blocked = _blocked(session, found)
    refused = {one.id: _refusal(one, states, forgotten, blocked) for one in found}
    return {recipient_id: refusal for recipient_id, refusal in refused.items() if refusal is not None}


def _refusal(
    one: Known, states: Collection[RecipientState], forgotten: Collection[int], blocked: Collection[int]
) -> Refusal | None:
    """The first reason that applies."""
    row, purged = one.row, None if one.send is None else one.send.content_purged_time
    if one.state not in states:
        return Refusal(LeftOut.STATE, f"is {one.state}; only a bounced, failed or uncertain recipient can be retried")
    if one.id in forgotten:
        return Refusal(LeftOut.FORGOTTEN, "its recipient was forgotten; there is nobody to send to")
    if row.reason in NOT_RETRYABLE:
        return Refusal(LeftOut.NO_CONTACT, f"failed with {row.reason}; a retry cannot help")
    if one.id in blocked:
        return Refusal(LeftOut.BLOCKED, f"{one.address.key} is blocked; unblock it first")
    if purged is not None:
        detail = f"its content was purged at {timestamp(purged)} (RETAIN_CONTENT); make a new send"
        return Refusal(LeftOut.CONTENT_PURGED, detail)
    if one.state is not RecipientState.UNCERTAIN and row.secrets is not None and None in row.secrets.values():
        return Refusal(LeftOut.SECRET_VALUES_GONE, "its secret values were deleted with its outcome; make a new send")
    return None


def _forgotten(session: Session, ids: Collection[int]) -> Collection[int]:
    column = RecipientStep.recipient_id
    of_ids = in_json(column, ids), between_ids(column, ids), RecipientStep.step == TimelineStep.FORGOTTEN
    return set(session.scalars(select(column).where(*of_ids)))


def _blocked(session: Session, found: Sequence[Known]) -> Collection[int]:
    """The recipients whose address is blocked."""
    blocked = load_suppressions(session, [one.address for one in found]).blocked
    return {one.id for one in found if one.address in blocked}


COUNTERS = {RecipientState.BOUNCED: "bounced", RecipientState.FAILED: "failed_contacts"}
"""State -> the counter of the group that counts it."""
COLUMNS: tuple[Any, ...] = (
    *(Recipient.id, Recipient.account_id, Recipient.group_id, Recipient.send_id, Recipient.type, Recipient.email),
    *(Recipient.mobile, Recipient.state, Recipient.reason, Recipient.attempts),
    # Most recipients have no secret values: the values of those that may have some are read.
    case((sql_cast(Recipient.values, String).contains("null"), Recipient.values)).label("secrets"),
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
    """Puts the recipients that are in one of these states and meet the conditions back into the queue, due now."""
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
