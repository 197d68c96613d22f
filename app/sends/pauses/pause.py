"""Pausing, and going on: each is one row, whatever waits. The caller wakes the workers after the commit."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from app.audit.actor import current_actor
from app.audit.record import Act, record
from app.audit.values import shown_change, without_addresses
from app.clock import now, this_second, timestamp
from app.db.database import Transaction
from app.db.models import Account, SendPause, table_of
from app.errors import ServiceError
from app.names import CONTROL
from app.sends.pauses.subject import Subject

MOST = 100
"""Pauses of an account, and of the whole installation."""
LONGEST_REASON = 200
IS_ACTIVE: ColumnElement[bool] = SendPause.resumed_time.is_(None)


def pause(transaction: Transaction, subject: Subject, reason: str | None = None) -> SendPause:
    """Pauses it. Raises `ServiceError`: `conflict` for what is paused already, and beyond the limit."""
    checked = _checked_reason(reason)
    if subject.account_id is not None:  # two at once take turns
        account = select(Account.id).where(Account.id == subject.account_id)
        transaction.execute(account.with_for_update(key_share=True))
    if (paused := _active(transaction, subject)) is not None:
        detail = f"{subject.words} has been paused since {timestamp(paused.creation_time)} by {paused.paused_by}"
        raise ServiceError("conflict", field=subject.kind, detail=detail)
    of_account = _of_account(subject.account_id), IS_ACTIVE
    if (transaction.scalar(select(func.count()).select_from(SendPause).where(*of_account)) or 0) >= MOST:
        raise ServiceError("conflict", field=subject.kind, detail=f"{MOST} pauses at most; go on with another first")
    made = SendPause(
        account_id=subject.account_id,
        kind=subject.kind,
        list_id=subject.list_id,
        domain=subject.domain,
        reason=checked,
        paused_by=without_addresses(current_actor().name),
        creation_time=this_second(),
    )
    transaction.add(made)
    transaction.flush()
    return made


def resume(transaction: Transaction, paused: SendPause) -> datetime:
    """Ends the pause: what it has put aside is let go from now on. Returns the time."""
    moment = now()
    ended = update(table_of(SendPause)).where(table_of(SendPause).c.id == paused.id)
    transaction.connection().execute(ended.values(resumed_time=moment))
    about = {"kind": paused.kind, "list_id": paused.list_id, "domain": paused.domain}
    changes = [shown_change(name, old=value) for name, value in about.items() if value is not None]
    record(transaction, Act("pause.ended", paused.account_id, paused.id, paused.domain, changes=changes))
    return moment


def find_pause(transaction: Transaction, subject: Subject) -> SendPause:
    """The pause of just that. Raises `ServiceError` (`invalid_id`) if there is none."""
    if (found := _active(transaction, subject)) is None:
        raise ServiceError("invalid_id", field=subject.kind, detail=f"{subject.words} is not paused")
    return found


def find_pause_by_id(transaction: Transaction, account_id: int | None, pause_id: int) -> SendPause | None:
    """The pause of the account, or of any with None; None if there is none, or it has ended."""
    statement = select(SendPause).where(SendPause.id == pause_id, IS_ACTIVE)
    if account_id is not None:
        statement = statement.where(SendPause.account_id == account_id)
    return transaction.scalars(statement.with_for_update()).first()


def _active(session: Session, subject: Subject) -> SendPause | None:
    same = SendPause.kind == subject.kind, SendPause.list_id == subject.list_id, SendPause.domain == subject.domain
    statement = select(SendPause).where(_of_account(subject.account_id), *same, IS_ACTIVE)
    return session.scalars(statement.with_for_update()).first()


def _of_account(account_id: int | None) -> ColumnElement[bool]:
    return SendPause.account_id.is_(None) if account_id is None else SendPause.account_id == account_id


def _checked_reason(reason: str | None) -> str | None:
    text = (reason or "").strip()
    if len(text) > LONGEST_REASON:
        detail = f"has more than {LONGEST_REASON} characters"
        raise ServiceError("too_long", field="reason", detail=detail)
    if CONTROL.search(text):
        raise ServiceError("invalid_string", field="reason", detail="holds a control character")
    return text or None
