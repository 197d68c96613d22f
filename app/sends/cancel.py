"""Cancelling messages before they leave (docs/scheduling.md#cancelling).

Whether a message can be cancelled is decided under the lock of its queue entry, which a sender needs to claim it: a
message that is cancelled never leaves, and one that a sender has is not cancelled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Row, select

from app.audit.record import Act, record
from app.clock import now
from app.db.database import Database, Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import QueueEntry, Recipient
from app.errors import ServiceError
from app.query.conditions import Equals, FilterCondition, Query
from app.recipients.collection import MatchingRecipients
from app.recipients.conditions import CURRENT_ADDRESS, IS_OF_TEST_ACCOUNT
from app.recipients.read import FILTERS, find_recipient
from app.recipients.states import FailReason, RecipientState
from app.sends.limits import MAX_CANCELLED
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.settle import settle
from app.sends.outcomes.transitions import RetryRules
from app.settings import Settings

CANCELLABLE = (RecipientState.SCHEDULED, RecipientState.QUEUED, RecipientState.PAUSED)
"""The states of recipients whose messages can be cancelled."""
CANCELLER = "cancelling messages"
"""The worker of an entry while its outcome is written."""
REFUSALS: Mapping[RecipientState, str] = {
    RecipientState.SENDING: "an attempt to send it is in progress",
    RecipientState.UNCERTAIN: "it may have been delivered already",
    RecipientState.HELD: "it was held after a restore, and may have been sent before",
    RecipientState.SENT: "it has been sent",
    RecipientState.DELIVERED: "it has been delivered",
    RecipientState.BOUNCED: "it has bounced",
    RecipientState.FAILED: "it has failed",
}
"""State -> why a message in it cannot be cancelled."""
COLUMNS: tuple[Any, ...] = (
    *(Recipient.id, Recipient.state, Recipient.reason),
    *(CURRENT_ADDRESS.label("address"), IS_OF_TEST_ACCOUNT.label("is_test")),
)


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The ids of the recipients whose messages were cancelled, and the states of those that cannot be; recipients that
    were cancelled before are in neither."""

    ids: Sequence[int]
    refused: Mapping[int, RecipientState]


def cancel(transaction: Transaction, settings: Settings, uuid: str) -> Recipient:
    """Cancels a message of any account, for an operator; recorded in the audit log.

    Raises `ServiceError`: `invalid_id` for an unknown uuid, `recipient_not_cancellable`.
    """
    recipient = find_recipient(transaction, uuid)
    if cancel_recipient(transaction, settings, recipient.account_id, recipient.id):
        record(transaction, Act("recipient.cancelled", recipient.account_id, recipient.uuid))
    transaction.refresh(recipient)
    return recipient


def cancel_recipient(transaction: Transaction, settings: Settings, account_id: int, recipient_id: int) -> bool:
    """Cancels the message of the account's recipient; returns whether it was not cancelled before. Raises
    `recipient_not_cancellable`."""
    cancellation = cancel_all(transaction, settings, account_id, [recipient_id])
    for state in cancellation.refused.values():
        raise ServiceError("recipient_not_cancellable", detail=f"The message cannot be cancelled: {REFUSALS[state]}.")
    return bool(cancellation.ids)


def with_uuids(query: Query, uuids: Sequence[str] | None) -> Query:
    """The query for messages that have one of the uuids, too. Raises `required` for one without any condition: no
    mistake cancels everything."""
    if uuids is not None:
        named = FilterCondition(FILTERS["uuid"], "in", tuple(Equals(uuid.lower()) for uuid in uuids))
        query = replace(query, conditions=(*query.conditions, named))
    if not query.conditions:
        detail = "Name the messages: by uuids in the body, or by filters in the query, such as ?group_id=5."
        raise ServiceError("required", field="uuids", detail=detail)
    return query


@dataclass(frozen=True, slots=True)
class CancelledMessages:
    """The uuids of the recipients whose messages were cancelled; `has_more` tells whether further ones match."""

    uuids: Sequence[str]
    has_more: bool


def cancel_matching(database: Database, settings: Settings, account_id: int, query: Query) -> CancelledMessages:
    """Cancels up to `MAX_CANCELLED` of the account's messages that match the query and have not left, the oldest
    first."""
    matching = MatchingRecipients.of(account_id, query, CANCELLABLE)
    with database.read() as session:
        rows = matching.next(session, (Recipient.id, Recipient.uuid), None, MAX_CANCELLED + 1)
    uuids: dict[int, str] = {row.id: row.uuid for row in rows[:MAX_CANCELLED]}

    def work(transaction: Transaction) -> Cancellation:
        return cancel_all(transaction, settings, account_id, list(uuids), *matching.conditions)

    cancelled = database.transact(work) if uuids else Cancellation((), {})
    return CancelledMessages([uuids[row_id] for row_id in cancelled.ids], len(rows) > MAX_CANCELLED)


def cancel_all(
    transaction: Transaction,
    settings: Settings,
    account_id: int,
    ids: Collection[int],
    *conditions: ColumnElement[bool],
) -> Cancellation:
    """Cancels the messages of those of the account's recipients that meet the conditions, as far as they can be; a
    fixed number of statements."""
    rows = _lock(transaction, ids, (Recipient.account_id == account_id, *conditions))
    states = _entry_states(transaction, account_id, [row.id for row in rows])
    cancellable = [row for row in rows if row.id in states and states[row.id].state in CANCELLABLE]
    moment = now()
    results = [
        AttemptResult(
            row.id,
            states[row.id].attempts,
            row.address,
            moment,
            skip=FailReason.CANCELLED,
            is_test=row.is_test,
        )
        for row in cancellable
    ]
    settle(transaction, CANCELLER, results, RetryRules.of(settings))
    cancelled = dict.fromkeys(row.id for row in cancellable)
    refused = {
        row.id: RecipientState(states[row.id].state if row.id in states else row.state)
        for row in rows
        if row.id not in cancelled and row.reason != FailReason.CANCELLED
    }
    return Cancellation(list(cancelled), refused)


def _lock(
    transaction: Transaction, ids: Collection[int], conditions: Sequence[ColumnElement[bool]]
) -> Sequence[Row[Any]]:
    """The recipients, locked: as everywhere, before their entries."""
    if not ids:
        return []
    id_filter = in_json(Recipient.id, ids), between_ids(Recipient.id, ids)
    statement = select(*COLUMNS).where(*id_filter, *conditions).order_by(Recipient.id)
    return transaction.execute(statement.with_for_update(key_share=True, of=Recipient)).all()


def _entry_states(transaction: Transaction, account_id: int, ids: Collection[int]) -> Mapping[int, Any]:
    """The state and attempts of the entries, locked, so that no worker claims one meanwhile."""
    if not ids:
        return {}
    columns = QueueEntry.recipient_id, QueueEntry.state, QueueEntry.attempts
    is_named = QueueEntry.account_id == account_id, in_json(QueueEntry.recipient_id, ids)
    entries = select(*columns).where(*is_named).order_by(QueueEntry.recipient_id)
    return {row.recipient_id: row for row in transaction.execute(entries.with_for_update())}
