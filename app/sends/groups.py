"""The transactional group that collects the results of a send (specification: Transactional send, rule 5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, func, insert, select, update

from app.db.database import Transaction
from app.db.models import Account, Group
from app.errors import ErrorCollector, ServiceError
from app.sends.draft import MessageType, SendDraft


@dataclass(frozen=True, slots=True)
class GroupOfSend:
    """A group; its id is None while it is to be created."""

    id: int | None
    name: str


def find_group(
    transaction: Transaction, account_id: int, draft: SendDraft, most: int, errors: ErrorCollector
) -> GroupOfSend | None:
    """The group that the send names, or the plan of a new one; None when it collected errors.

    `most` is how many groups the account may have. Names are compared exactly (decisions: 6).
    """
    if draft.group_id is None and draft.group_name is None:
        errors.add("group_missing", field="group_name")
        return None
    row = _find(transaction, account_id, draft)
    if row is None and draft.group_id is None:
        # Whoever creates a group waits here for others who do: so the limit holds, and a name is created once.
        _hold_account(transaction, account_id)
        row = _find(transaction, account_id, draft)
        if row is None:
            return _planned(transaction, account_id, draft, most, errors)
    if row is None or (draft.group_name is not None and row.name != draft.group_name):
        errors.add("invalid_id", field="group_id", detail=_mismatch(draft, row))
        return None
    if row.type != draft.type:
        _refuse_type(draft, row)
    return GroupOfSend(row.id, row.name)


def _find(transaction: Transaction, account_id: int, draft: SendDraft) -> Row[tuple[int, str, str]] | None:
    named = Group.id == draft.group_id if draft.group_id is not None else Group.name == draft.group_name
    statement = select(Group.id, Group.type, Group.name).where(Group.account_id == account_id, named)
    return transaction.connection().execute(statement).one_or_none()


def _hold_account(transaction: Transaction, account_id: int) -> None:
    """Until the end of the transaction. Foreign keys to the account do not wait for this lock."""
    transaction.connection().execute(select(Account.id).where(Account.id == account_id).with_for_update(key_share=True))


def _planned(
    transaction: Transaction, account_id: int, draft: SendDraft, most: int, errors: ErrorCollector
) -> GroupOfSend | None:
    count = transaction.connection().execute(select(func.count()).where(Group.account_id == account_id)).scalar_one()
    if count >= most or draft.group_name is None:
        errors.add("group_count_exceeded", field="group_name")
        return None
    return GroupOfSend(None, draft.group_name)


def _mismatch(draft: SendDraft, row: Row[tuple[int, str, str]] | None) -> str:
    if row is None:
        return f"group_id: there is no group {draft.group_id}."
    return f"group_id: the group {row.id} is not called {draft.group_name}."


def _refuse_type(draft: SendDraft, row: Row[tuple[int, str, str]]) -> None:
    field = "group_id" if draft.group_id is not None else "group_name"
    detail = f"{field}: the group {row.id} is for {row.type}, and this is a send of {draft.type}."
    raise ServiceError("conflict", field=field, detail=detail, taken={field: {"group_id": row.id}})


def create_group(
    transaction: Transaction, account_id: int, type_: MessageType, name: str, recipients: int, moment: datetime
) -> int:
    """Creates the group that `find_group` planned, with the recipients of its first send; returns its id."""
    counters = dict.fromkeys(("failed_contacts", "bounced", "delivered", "opened", "clicked", "unsubscribed"), 0)
    statement = insert(Group.__table__).values(  # type: ignore[arg-type]
        account_id=account_id,
        type=type_,
        name=name,
        creation_time=moment,
        last_sent_time=moment,
        sent=recipients,
        **counters,
    )
    return transaction.connection().execute(statement.returning(Group.__table__.c.id)).scalar_one()


def count_send(transaction: Transaction, group_id: int, recipients: int, moment: datetime) -> None:
    """Adds a send's recipients to a group that exists. Sends to one group wait for each other from here on."""
    statement = (
        update(Group.__table__)  # type: ignore[arg-type]
        .where(Group.id == group_id)
        .values(sent=Group.sent + recipients, last_sent_time=moment)
    )
    transaction.connection().execute(statement)
