"""Finding accounts by the name or id that an operator gives."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.models import Account
from app.errors import ServiceError
from app.ids import id_in

MAX_NAMES = 10
"""Accounts that an error message lists by name."""


def all_accounts(session: Session) -> list[Account]:
    """Every account, by name."""
    return list(session.scalars(select(Account).order_by(Account.name)))


def find_account(session: Session, name_or_id: str | None) -> Account:
    """The account with that name, else with that id; for None the only account that is no test account.

    Raises `ServiceError` (`invalid_id`) if it does not exist, or if there are several and none is named.
    """
    if name_or_id is None:
        return _the_only_one(session)
    account = session.scalars(select(Account).where(Account.name == name_or_id)).first()
    if account is None and (account_id := id_in(name_or_id)) is not None:
        account = session.get(Account, account_id)
    if account is None:
        raise ServiceError("invalid_id", field="account", detail=f"there is no account {name_or_id!r}")
    return account


def _the_only_one(session: Session) -> Account:
    live = select(Account).where(Account.test_of.is_(None))
    accounts = session.scalars(live.order_by(Account.name).limit(MAX_NAMES + 1)).all()
    if len(accounts) == 1:
        return accounts[0]
    if not accounts:
        raise ServiceError("invalid_id", field="account", detail="there is no account yet")
    names = ", ".join(account.name for account in accounts[:MAX_NAMES]) + (", …" if len(accounts) > MAX_NAMES else "")
    raise ServiceError(
        "invalid_id", field="account", detail=f"there are several accounts; choose one with --account: {names}"
    )
