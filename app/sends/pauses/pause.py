"""Pausing what somebody names, and going on: each is one row, whatever waits. The caller wakes the workers after the
commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from app.accounts.domain_hosts import domain_key
from app.audit.actor import current_actor
from app.audit.record import Act, record
from app.audit.values import shown_change, without_addresses
from app.clock import now, this_second, timestamp
from app.db.database import Transaction
from app.db.lookup import find_by_name_or_id
from app.db.models import Account, List, SendPause, table_of
from app.errors import ServiceError
from app.names import check_line

PauseKind = Literal["account", "list", "domain"]


@dataclass(frozen=True, slots=True)
class Subject:
    """An account with all that it sends; one of its lists; or a domain of recipients, of the account or, without one,
    of the whole installation."""

    account_id: int | None
    list_id: int | None = None
    domain: str | None = None
    list_name: str | None = None

    @property
    def kind(self) -> PauseKind:
        """Which of them it is."""
        if self.domain is not None:
            return "domain"
        return "account" if self.list_id is None else "list"

    @property
    def words(self) -> str:
        """What is paused, behind "the messages of"."""
        return words_of(self.kind, self.list_name, self.domain, is_everywhere=self.account_id is None)


def words_of(kind: str, list_name: str | None, domain: str | None, *, is_everywhere: bool) -> str:
    """What is paused, in words."""
    if kind == "account":
        return "the account"
    if kind == "list":
        return f"the list {list_name or 'that was deleted'}"
    return f"mail of all accounts to {domain}" if is_everywhere else f"mail to {domain}"


def subject_of(session: Session, account: Account | None, *, list_: str | None, domain: str | None) -> Subject:
    """What the names mean: a list by its name or id. Raises `ServiceError`: `invalid_id` for a list that the account
    does not have, `invalid_string` for what is no domain, `conflict` for what cannot be paused."""
    if list_ is not None and domain is not None:
        raise ServiceError("invalid_string", field="domain", detail="give either a list or a domain")
    if account is None:
        if domain is None:
            detail = "for the whole installation, only a domain can be paused: give a domain"
            raise ServiceError("not_empty", field="domain", detail=detail)
        return Subject(None, domain=_checked_domain(domain))
    if account.test_of is not None:
        detail = "a test account cannot be paused, because its messages are captured, not sent"
        raise ServiceError("conflict", field="account", detail=detail)
    if domain is not None:
        return Subject(account.id, domain=_checked_domain(domain))
    if list_ is None:
        return Subject(account.id)
    list_row = find_by_name_or_id(session, List, account.id, list_, "list")
    return Subject(account.id, list_id=list_row.id, list_name=list_row.name)


def _checked_domain(text: str) -> str:
    try:
        return domain_key(text.strip().removeprefix("@"))
    except ValueError as error:
        raise ServiceError("invalid_string", field="domain", detail=str(error)) from None


MAX_PAUSES = 100
"""Pauses of an account, and of the whole installation."""
MAX_REASON_LENGTH = 200
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
    account_filter = _account_filter(subject.account_id), IS_ACTIVE
    if (transaction.scalar(select(func.count()).select_from(SendPause).where(*account_filter)) or 0) >= MAX_PAUSES:
        raise ServiceError(
            "conflict", field=subject.kind, detail=f"there can be at most {MAX_PAUSES} pauses; end another pause first"
        )
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
    if (active := _active(transaction, subject)) is None:
        raise ServiceError("invalid_id", field=subject.kind, detail=f"{subject.words} is not paused")
    return active


def find_pause_by_id(transaction: Transaction, account_id: int | None, pause_id: int) -> SendPause | None:
    """The pause of the account, or of any with None; None if there is none, or it has ended."""
    statement = select(SendPause).where(SendPause.id == pause_id, IS_ACTIVE)
    if account_id is not None:
        statement = statement.where(SendPause.account_id == account_id)
    return transaction.scalars(statement.with_for_update()).first()


def _active(session: Session, subject: Subject) -> SendPause | None:
    same = SendPause.kind == subject.kind, SendPause.list_id == subject.list_id, SendPause.domain == subject.domain
    statement = select(SendPause).where(_account_filter(subject.account_id), *same, IS_ACTIVE)
    return session.scalars(statement.with_for_update()).first()


def _account_filter(account_id: int | None) -> ColumnElement[bool]:
    return SendPause.account_id.is_(None) if account_id is None else SendPause.account_id == account_id


def _checked_reason(reason: str | None) -> str | None:
    return check_line((reason or "").strip(), "reason", MAX_REASON_LENGTH) or None
