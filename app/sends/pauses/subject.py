"""What a pause is about, as somebody names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy.orm import Session

from app.accounts.domain_names import domain_key
from app.db.lookup import find_by_name_or_id
from app.db.models import Account, List
from app.errors import ServiceError

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
        """What it is, behind "the messages of"."""
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
        raise ServiceError("invalid_string", field="domain", detail="name a list or a domain, not both")
    if account is None:
        if domain is None:
            detail = "of the whole installation only a domain can be paused: name one"
            raise ServiceError("not_empty", field="domain", detail=detail)
        return Subject(None, domain=_checked_domain(domain))
    if account.test_of is not None:
        detail = "its messages are captured, not sent: a test account cannot be paused"
        raise ServiceError("conflict", field="account", detail=detail)
    if domain is not None:
        return Subject(account.id, domain=_checked_domain(domain))
    if list_ is None:
        return Subject(account.id)
    found = find_by_name_or_id(session, List, account.id, list_, "list")
    return Subject(account.id, list_id=found.id, list_name=found.name)


def _checked_domain(text: str) -> str:
    try:
        return domain_key(text.strip().removeprefix("@"))
    except ValueError as error:
        raise ServiceError("invalid_string", field="domain", detail=str(error)) from None
