"""The columns of a recipient for outcomes, inbound reports and tracking, with its event and its timeline steps;
selecting, locking and changing recipients and their queue entries, and appending to their timelines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import Select, delete, func, select, update
from sqlalchemy.orm import Session

from app.db.bulk import insert_rows
from app.db.database import Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import QueueEntry, Recipient, RecipientStep, Send
from app.events.outbox import Payload, recipient_event
from app.recipients.conditions import CURRENT_ATTEMPTS, CURRENT_STATE
from app.recipients.timeline import TimelineStep


class RecipientRow(NamedTuple):
    """One recipient with what it shares with its send. A tuple, because hundreds of outcomes are written at once."""

    id: int
    account_id: int
    uuid: str
    type: str
    group_id: int
    group_name: str
    message_id: int | None
    list_id: int | None
    contact_id: int | None
    email: str | None
    mobile: str | None
    state: str
    attempts: int
    begin_time: datetime
    """The `send_at` of its send, or when it was accepted: its retry period begins."""
    request_id: str
    from_address: str
    automation_id: int | None = None
    step_id: int | None = None
    """The step of the automation that sent the message; None if no automation sent it."""
    tags: list[str] | None = None
    custom_metadata: dict[str, str] | None = None

    def event(
        self,
        name: str,
        moment: datetime,
        extra: Mapping[str, str | bool | None] = MappingProxyType({}),
        *,
        address: str | None = None,
    ) -> Payload:
        """The webhook event of that name (docs/webhooks.md#events) with its own `extra` fields; `address` is the one
        that the message was sent to, if the row does not have it yet."""
        is_email = self.type == "email"
        return recipient_event(
            name,
            recipient_id=self.id,
            uuid=self.uuid,
            group_id=self.group_id,
            group_name=self.group_name,
            message_id=self.message_id,
            message_type=self.type,
            list_id=self.list_id,
            contact_id=self.contact_id,
            email=(address or self.email) if is_email else None,
            mobile=None if is_email else (address or self.mobile),
            moment=moment,
            automation_id=self.automation_id,
            step_id=self.step_id,
            tags=self.tags,
            metadata=self.custom_metadata,
            **extra,
        )

    def step(self, step: TimelineStep, detail: str | None, moment: datetime) -> dict[str, Any]:
        """A row for `add_steps`."""
        return step_row(self.account_id, self.id, step, detail, moment)


def step_row(
    account_id: int,
    recipient_id: int,
    step: TimelineStep,
    detail: str | None,
    moment: datetime,
    *,
    note: str | None = None,
    transport: str | None = None,
) -> dict[str, Any]:
    """A row for `add_steps`; `note` is for the operator alone, `transport` the name of the transport that was used."""
    return {
        "account_id": account_id,
        "recipient_id": recipient_id,
        "time": moment,
        "step": step,
        "detail": detail,
        "note": note,
        "transport": transport,
    }


BEGIN_TIME = func.coalesce(Send.send_at, Recipient.creation_time)
"""When the retry period of a recipient begins."""
_SEND_COLUMNS = {"group_name", "request_id", "from_address", "automation_id", "step_id"}
_COMPUTED_COLUMNS: dict[str, Any] = {
    "state": CURRENT_STATE,
    "attempts": CURRENT_ATTEMPTS,
    "begin_time": BEGIN_TIME,
}
_COLUMNS: dict[str, Any] = {
    name: _COMPUTED_COLUMNS[name]
    if name in _COMPUTED_COLUMNS
    else getattr(Send if name in _SEND_COLUMNS else Recipient, name)
    for name in RecipientRow._fields
}


def select_recipients(*further: Any, **instead: Any) -> Select[*tuple[Any, ...]]:
    """The columns of `RecipientRow`, some of them replaced by name, followed by `further` ones."""
    return select(*(_COLUMNS | instead).values(), *further).join(Send, Send.id == Recipient.send_id)


def as_recipient(row: Sequence[Any]) -> RecipientRow:
    """The recipient of a row of `select_recipients`, whatever further columns it has."""
    return RecipientRow._make(row[: len(RecipientRow._fields)])


def lock_recipient(transaction: Transaction, recipient_id: int, *, account_id: int | None = None) -> None:
    """Locks the row until the end of the transaction: two reports at the same moment are written one after the other,
    and none at the same time as the outcome.

    Rows may refer to it meanwhile: recovery appends to the timeline while it holds the queue entry. A report does not
    say whose recipient it is about; who knows names the account.
    """
    statement = select(Recipient.id).where(Recipient.id == recipient_id)
    if account_id is not None:
        statement = statement.where(Recipient.account_id == account_id)
    transaction.execute(statement.with_for_update(key_share=True))


def lock_queue_entry(transaction: Transaction, recipient_id: int) -> QueueEntry | None:
    """Locks the entry of a locked recipient, so that no worker claims it meanwhile; None if the recipient is
    settled."""
    statement = select(QueueEntry).where(QueueEntry.recipient_id == recipient_id)
    return transaction.scalars(statement.with_for_update()).first()


def update_recipients(transaction: Transaction, ids: Collection[int], **values: Any) -> None:
    """Sets the same values for all of them."""
    statement = update(Recipient).where(in_json(Recipient.id, ids), between_ids(Recipient.id, ids)).values(**values)
    transaction.execute(statement, execution_options={"synchronize_session": False})


def update_queue_entries(transaction: Transaction, ids: Collection[int], **values: Any) -> None:
    """Sets the same values for the entries of all of them."""
    statement = update(QueueEntry).where(in_json(QueueEntry.recipient_id, ids)).values(**values)
    transaction.execute(statement, execution_options={"synchronize_session": False})


def delete_queue_entries(transaction: Transaction, ids: Collection[int]) -> None:
    """Deletes the entries of settled recipients; one statement, or none for no recipients."""
    if ids:
        statement = delete(QueueEntry).where(in_json(QueueEntry.recipient_id, ids))
        transaction.execute(statement, execution_options={"synchronize_session": False})


def has_step(session: Session, recipient_id: int, step: TimelineStep, detail: str | None = None) -> bool:
    """Whether the recipient's timeline has the step, with the detail if one is given."""
    steps = select(RecipientStep.id).where(RecipientStep.recipient_id == recipient_id, RecipientStep.step == step)
    if detail is not None:
        steps = steps.where(RecipientStep.detail == detail)
    return session.scalars(steps.limit(1)).first() is not None


def add_steps(transaction: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    """Appends steps to timelines, in their order; one statement, or none for no steps."""
    insert_rows(transaction, RecipientStep, rows)
