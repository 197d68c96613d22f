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
from app.recipients.states import UNRETRYABLE_REASONS, FailReason, RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.relay_refusals import try_now
from app.sends.skipping import load_suppressions

# Which recipients can be retried, and why others cannot: one rule for one recipient and for many.

RETRYABLE = (RecipientState.BOUNCED, RecipientState.FAILED, RecipientState.UNCERTAIN)


class RefusalReason(enum.StrEnum):
    """Why a recipient is not retried, as bulk actions count it (docs/console-messages.md#bulk-actions)."""

    STATE = "state"
    FORGOTTEN = "forgotten"
    CANCELLED = "cancelled"
    NO_CONTACT = "no_contact"
    BLOCKED = "blocked"
    CONTENT_PURGED = "content_purged"
    SECRET_VALUES_GONE = "secret_values_gone"  # noqa: S105 - a reason, no secret
    CHANGED = "changed"


class Refusal(NamedTuple):
    """Why a recipient is not retried: as it is counted, and in words."""

    reason: RefusalReason
    detail: str


class RetryCandidate(NamedTuple):
    """What the rule needs to know of a recipient: its row, its state with that of its queue entry, and its send."""

    row: Row[Any]
    state: RecipientState
    send: Row[Any] | None

    @property
    def id(self) -> int:
        """The id of the recipient."""
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


def refusals(
    session: Session, candidates: Sequence[RetryCandidate], states: Collection[RecipientState]
) -> dict[int, Refusal]:
    """Id of a recipient -> why it cannot be retried. All candidates are of one account, and the number of statements
    does not grow with theirs."""
    forgotten = _forgotten(session, [candidate.id for candidate in candidates])
    blocked = _blocked(session, candidates)
    refused = {candidate.id: _refusal(candidate, states, forgotten, blocked) for candidate in candidates}
    return {recipient_id: refusal for recipient_id, refusal in refused.items() if refusal is not None}


def _refusal(
    candidate: RetryCandidate, states: Collection[RecipientState], forgotten: Collection[int], blocked: Collection[int]
) -> Refusal | None:
    """The first reason that applies."""
    row, purged = candidate.row, None if candidate.send is None else candidate.send.content_purged_time
    if candidate.state not in states:
        return Refusal(
            RefusalReason.STATE, f"is {candidate.state}; only bounced, failed or uncertain recipients can be retried"
        )
    if candidate.id in forgotten:
        return Refusal(RefusalReason.FORGOTTEN, "its recipient was forgotten")
    if row.reason == FailReason.CANCELLED:
        return Refusal(RefusalReason.CANCELLED, "it was cancelled")
    if row.reason in UNRETRYABLE_REASONS:
        return Refusal(RefusalReason.NO_CONTACT, f"failed with {row.reason}; a retry cannot help")
    if candidate.id in blocked:
        return Refusal(RefusalReason.BLOCKED, f"{candidate.address.key} is blocked; unblock it first")
    if purged is not None:
        detail = f"its content was purged at {timestamp(purged)} (RETAIN_CONTENT); make a new send"
        return Refusal(RefusalReason.CONTENT_PURGED, detail)
    if candidate.state is not RecipientState.UNCERTAIN and row.secrets is not None and None in row.secrets.values():
        return Refusal(
            RefusalReason.SECRET_VALUES_GONE, "its secret values were deleted with its outcome; make a new send"
        )
    return None


def _forgotten(session: Session, ids: Collection[int]) -> Collection[int]:
    column = RecipientStep.recipient_id
    conditions = in_json(column, ids), between_ids(column, ids), RecipientStep.step == TimelineStep.FORGOTTEN
    return set(session.scalars(select(column).where(*conditions)))


def _blocked(session: Session, candidates: Sequence[RetryCandidate]) -> Collection[int]:
    """The recipients whose address is blocked."""
    blocked = load_suppressions(session, [candidate.address for candidate in candidates]).blocked
    return {candidate.id for candidate in candidates if candidate.address in blocked}


COUNTERS = {RecipientState.BOUNCED: "bounced", RecipientState.FAILED: "failed_contacts"}
"""State -> the counter of the group that counts it."""
COLUMNS: tuple[Any, ...] = (
    *(Recipient.id, Recipient.account_id, Recipient.group_id, Recipient.send_id, Recipient.type, Recipient.email),
    *(Recipient.mobile, Recipient.state, Recipient.reason, Recipient.attempts, Recipient.tags),
    # Most recipients have no secret values: the values of those that may have some are read.
    case((sql_cast(Recipient.values, String).contains("null"), Recipient.values)).label("secrets"),
)

RowsById = Mapping[int, Any]
"""Rows by their id."""


@dataclass(frozen=True, slots=True)
class RequeueResult:
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
) -> RequeueResult:
    """Puts the recipients that are in one of these states and meet the conditions back into the queue, due now."""
    if not ids:
        return RequeueResult([], {})
    sends = _lock_sends(transaction, ids)
    rows = transaction.execute(_recipients(ids, conditions).with_for_update(key_share=True)).all()
    entries = _entries(transaction, ids, lock=True)
    candidates = _candidates(rows, entries, sends)
    refused = refusals(transaction, candidates, states)
    refused |= dict.fromkeys({*ids} - {row.id for row in rows}, Refusal(RefusalReason.CHANGED, "it no longer matches"))
    _write(transaction, [candidate for candidate in candidates if candidate.id not in refused])
    return RequeueResult([candidate.id for candidate in candidates if candidate.id not in refused], refused)


def would_refuse(session: Session, ids: Collection[int], states: Collection[RecipientState]) -> Mapping[int, Refusal]:
    """Which of the recipients would not be requeued now, and why."""
    rows = session.execute(_recipients(ids, ())).all()
    sends = select(Send.id, Send.content_purged_time, Send.priority)
    send_rows = session.execute(sends.where(in_json(Send.id, {row.send_id for row in rows})))
    candidates = _candidates(rows, _entries(session, ids, lock=False), {row.id: row for row in send_rows})
    return refusals(session, candidates, states)


def _lock_sends(transaction: Transaction, ids: Collection[int]) -> RowsById:
    """Keeps the content of the recipients' sends from being purged. Sends are locked before their recipients, as when
    purging."""
    id_filter = in_json(Recipient.id, ids), between_ids(Recipient.id, ids)
    send_ids = transaction.scalars(select(Recipient.send_id).where(*id_filter).distinct()).all()
    sends = select(Send.id, Send.content_purged_time, Send.priority).where(in_json(Send.id, send_ids))
    return {row.id: row for row in transaction.execute(sends.order_by(Send.id).with_for_update(read=True))}


def _recipients(ids: Collection[int], conditions: Sequence[ColumnElement[bool]]) -> Select[Any]:
    id_filter = in_json(Recipient.id, ids), between_ids(Recipient.id, ids)
    return select(*COLUMNS).where(*id_filter, *conditions).order_by(Recipient.id)


def _entries(session: Session, ids: Collection[int], *, lock: bool) -> RowsById:
    """The queue entries of locked recipients; locked, so that no worker claims them meanwhile."""
    entries = select(QueueEntry.recipient_id, QueueEntry.state).where(in_json(QueueEntry.recipient_id, ids))
    in_order = entries.order_by(QueueEntry.recipient_id)
    return {row.recipient_id: row for row in session.execute(in_order.with_for_update() if lock else in_order)}


def _candidates(rows: Sequence[Row[Any]], entries: RowsById, sends: RowsById) -> Sequence[RetryCandidate]:
    return [
        RetryCandidate(
            row, RecipientState(entries[row.id].state if row.id in entries else row.state), sends.get(row.send_id)
        )
        for row in rows
    ]


def _write(transaction: Transaction, candidates: Sequence[RetryCandidate]) -> None:
    if not candidates:
        return
    moment, rows = now(), [candidate.row for candidate in candidates]
    try_now(transaction, in_json(RelayRefusal.account_id, {row.account_id for row in rows}))
    failed = failed_times(transaction, [candidate.id for candidate in candidates if candidate.state in COUNTERS])
    for candidate in candidates:
        if candidate.state in COUNTERS:
            failed_time = failed.get(candidate.id, moment)
            row, counters = candidate.row, {COUNTERS[candidate.state]: -1}
            count_in_group(transaction, row.account_id, row.group_id, failed_time, row.tags, **counters)
    steps = (
        step_row(
            candidate.row.account_id,
            candidate.id,
            TimelineStep.REQUEUED,
            _former_state(candidate.state, candidate.row.reason),
            moment,
        )
        for candidate in candidates
    )
    add_steps(transaction, [*steps])
    waiting = [candidate.id for candidate in candidates if candidate.state is RecipientState.UNCERTAIN]
    if waiting:
        times = {"due_time": moment, "ready_time": moment}
        update_queue_entries(transaction, waiting, state=RecipientState.QUEUED, **times)
    settled = [_entry(candidate) for candidate in candidates if candidate.state is not RecipientState.UNCERTAIN]
    shared: dict[str, Any] = {"state": RecipientState.QUEUED, "due_time": moment, "ready_time": moment}
    insert_rows(transaction, QueueEntry, settled, shared)
    values = {"state": RecipientState.QUEUED, "reason": None, "sent_time": None}
    update_recipients(transaction, [row.id for row in rows], **values)


def _former_state(state: RecipientState, reason: str | None) -> str:
    return f"was {state}: {reason or 'no reason known'}"


def _entry(candidate: RetryCandidate) -> dict[str, Any]:
    """The count of attempts continues: it distinguishes results in journals."""
    return {
        "recipient_id": candidate.id,
        "account_id": candidate.row.account_id,
        "type": candidate.row.type,
        "priority": candidate.priority,
        "attempts": candidate.row.attempts,
    }


def failed_times(transaction: Transaction, ids: Collection[int]) -> Mapping[int, datetime]:
    """Id of a recipient -> when it bounced or failed: it is subtracted from the counts of that hour."""
    column, outcomes = RecipientStep.recipient_id, (TimelineStep.BOUNCED, TimelineStep.FAILED)
    conditions = in_json(column, ids), between_ids(column, ids), RecipientStep.step.in_(outcomes)
    rows = transaction.execute(select(column, func.max(RecipientStep.time)).where(*conditions).group_by(column))
    return {row[0]: row[1] for row in rows}
