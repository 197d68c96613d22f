"""The transactional group that collects the results of a send (docs/sending.md#groups)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from app.db.bulk import ChildRows, insert_with_children
from app.db.counters import GROUP_COUNTS, count, count_in_group, hour_of
from app.db.database import Transaction
from app.db.models import Account, Group, HourlyCount
from app.db.models.groups import RESULT_COUNTERS
from app.errors import ServiceError
from app.ids import describe
from app.sends.accept.draft import MessageType, SendDraft
from app.sends.accept.references import ExistingGroup, SendCheck


@dataclass(frozen=True, slots=True)
class SendGroup:
    """The group of a send; its id is None if it is still to be created."""

    id: int | None
    name: str


def find_group(check: SendCheck, max_groups: int, *, only_reading: bool = False) -> SendGroup | None:
    """The existing group that the send names, or a new one to create; None if errors were collected.

    `max_groups` is the limit of the account. Names are compared exactly (docs/sending.md#groups). Raises `conflict` for
    a group of the other type. If the group is not going to be created, `only_reading`, nothing is locked.
    """
    draft = check.draft
    if draft.group_id is None and draft.group_name is None:
        check.errors.add("group_missing", field="group_name")
        return None
    row = check.references.group
    if row is None and draft.group_id is None:
        # Requests that create groups of an account take turns, so that the limit holds and each name is created once.
        if not only_reading:
            _lock_account(check)
            row = _find(check)
        if row is None:
            return _plan_group(check, max_groups)
    if row is None or draft.group_name not in (None, row.name.strip()):
        check.errors.add("invalid_id", field="group_id", detail=_mismatch(draft, row))
        return None
    if row.type != draft.type:
        raise _type_conflict(draft, row)
    return SendGroup(row.id, row.name)


def _find(check: SendCheck) -> ExistingGroup | None:
    """The group of that name, looked up again under the lock."""
    statement = select(Group.id, Group.type, Group.name).where(
        Group.account_id == check.account_id, Group.name == check.draft.group_name
    )
    row = check.rows(statement).one_or_none()
    return ExistingGroup(*row) if row else None


def _lock_account(check: SendCheck) -> None:
    """Locks the row until the end of the transaction. Inserts with a foreign key to the account do not wait for it."""
    check.rows(select(Account.id).where(Account.id == check.account_id).with_for_update(key_share=True))


def _plan_group(check: SendCheck, max_groups: int) -> SendGroup | None:
    count = check.rows(select(func.count()).where(Group.account_id == check.account_id)).scalar_one()
    if count >= max_groups:
        check.errors.add("group_count_exceeded", field="group_name")
        return None
    return SendGroup(None, check.draft.group_name or "")


def _mismatch(draft: SendDraft, row: ExistingGroup | None) -> str:
    if row is None:
        return f"group_id: there is no {describe('group', draft.group_id or 0)}."
    return f"group_id: the group {row.id} is not called {draft.group_name}."


def _type_conflict(draft: SendDraft, row: ExistingGroup) -> ServiceError:
    field = "group_id" if draft.group_id is not None else "group_name"
    detail = f"{field}: the group {row.id} is for {row.type}, and this is a send of {draft.type}."
    return ServiceError("conflict", field=field, detail=detail, conflict_fields={field: {"group_id": row.id}})


def create_group(
    transaction: Transaction,
    account_id: int,
    type_: MessageType,
    name: str,
    *,
    recipients: int,
    send_time: datetime,
) -> int:
    """Creates a group with the number of recipients of its first send; returns its id."""
    row = {
        "account_id": account_id,
        "type": type_,
        "name": name,
        "creation_time": send_time,
        "last_sent_time": send_time,
        "sent": recipients,
        **dict.fromkeys(RESULT_COUNTERS, 0),
    }
    first_hour = {"slot": 0, "hour": hour_of(send_time), "sent": recipients}
    hours = ChildRows(HourlyCount, "group_id", [first_hour], {"account_id": account_id})
    return insert_with_children(transaction, Group, row, [hours])


def count_send(
    transaction: Transaction, account_id: int, group_id: int, *, recipients: int, send_time: datetime
) -> None:
    """Adds a send's recipients to an existing group."""
    count_in_group(transaction, account_id, group_id, send_time, sent=recipients)
    count(transaction, GROUP_COUNTS, account_id, (group_id,), last_sent_time=send_time)
