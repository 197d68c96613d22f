"""Asking for a bulk action, after a preview of what it would do, and cancelling one."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.audit.actor import current_actor
from app.audit.record import Act, record
from app.audit.values import without_addresses
from app.bulk_actions.kinds import KINDS
from app.bulk_actions.preview import Preview
from app.clock import now, this_second
from app.db.database import Transaction
from app.db.lookup import find_with_id
from app.db.models import Account, BulkAction
from app.errors import ServiceError

UNDO_PERIOD = timedelta(seconds=30)
"""For how long an action waits, so that it can be undone."""
MAX_OPEN_ACTIONS = 5
"""Actions of an account that wait or run."""


def ask(transaction: Transaction, account: Account, preview: Preview) -> BulkAction:
    """Asks for the action that was previewed. Raises `ServiceError`: `conflict` if it would do nothing, or too much
    matches, or too many actions of the account have not ended."""
    if preview.newest is None or preview.does_nothing:
        raise ServiceError("conflict", detail=preview.kind.nothing)
    if preview.is_too_large:
        detail = f"{preview.number.capitalize()} match. Narrow the search, for example by day."
        raise ServiceError("conflict", detail=detail)
    _check_open(transaction, account)
    asked = BulkAction(
        account_id=account.id,
        action=preview.kind.name,
        query=preview.query,
        asked_by=without_addresses(current_actor().name),
        state="waiting",
        creation_time=this_second(),
        due_time=now() + UNDO_PERIOD,
        messages=preview.messages,
        newest_time=preview.newest[0],
        newest_id=preview.newest[1],
        done=0,
        left_out={},
    )
    transaction.add(asked)
    transaction.flush()
    record(transaction, act_on(asked, "bulk_action.asked", **{preview.kind.counted: preview.messages}))
    return asked


def _check_open(transaction: Transaction, account: Account) -> None:
    """Raises `conflict` for an action too many. It counts under a lock on the account, so that two requests do not
    count the same."""
    transaction.execute(select(Account.id).where(Account.id == account.id).with_for_update(key_share=True))
    account_filter = BulkAction.account_id == account.id, BulkAction.end_time.is_(None)
    open_actions = transaction.scalar(select(func.count()).select_from(BulkAction).where(*account_filter)) or 0
    if open_actions >= MAX_OPEN_ACTIONS:
        detail = (
            f"{open_actions} bulk actions of the account are waiting or running. Wait until one ends, or cancel one."
        )
        raise ServiceError("conflict", detail=detail)


def find_action(session: Session, account_id: int | None, action_id: int) -> BulkAction:
    """The account's action, or that of any account for None. Raises `not_found`."""
    return find_with_id(session, BulkAction, account_id, action_id, "bulk action")


def cancel(transaction: Transaction, account_id: int | None, action_id: int) -> BulkAction:
    """Ends an action that waits, with nothing done, or one that runs, whose rest is left as it is. Raises `not_found`,
    and `conflict` for one that has ended."""
    action = find_action(transaction, account_id, action_id)
    # Waits for the slice that is being run.
    transaction.refresh(action, with_for_update={"key_share": True})
    if action.end_time is not None:
        raise ServiceError("conflict", detail=f"The bulk action {action_id} has ended: it is {action.state}.")
    action.state, action.end_time = "cancelled", now()
    transaction.flush()
    record(transaction, act_on(action, "bulk_action.cancelled", **counts_of(action)))
    return action


def counts_of(action: BulkAction) -> dict[str, int]:
    """What an action has done, for the audit log."""
    return {KINDS[action.action].past: action.done, "left_out": sum(action.left_out.values())}


def act_on(action: BulkAction, name: str, **counts: int) -> Act:
    """An act on the action, which is named by what it does to which messages."""
    return Act(name, action.account_id, action.id, f"{action.action} {action.query}", counts=counts)
