"""Finding accounts by the name or id that an operator gives."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.models import Account
from app.errors import ServiceError
from app.ids import id_in

MOST_NAMED = 10
"""Accounts that an error message lists by name."""


def all_accounts(session: Session) -> list[Account]:
    """Every account, by name."""
    return list(session.scalars(select(Account).order_by(Account.name)))


def find_account(session: Session, wanted: str | None) -> Account:
    """The account with that name, else with that id; for None the only account that is no test account.

    Raises `ServiceError` (`invalid_id`) if it does not exist, or if there are several and none is named.
    """
    if wanted is None:
        return _the_only_one(session)
    found = session.scalars(select(Account).where(Account.name == wanted)).first()
    if found is None and (account_id := id_in(wanted)) is not None:
        found = session.get(Account, account_id)
    if found is None:
        raise ServiceError("invalid_id", field="account", detail=f"there is no account {wanted!r}")
    return found


def _the_only_one(session: Session) -> Account:
    live = select(Account).where(Account.test_of.is_(None))
    found = session.scalars(live.order_by(Account.name).limit(MOST_NAMED + 1)).all()
    if len(found) == 1:
        return found[0]
    if not found:
        raise ServiceError("invalid_id", field="account", detail="there is no account yet")
    names = ", ".join(one.name for one in found[:MOST_NAMED]) + (", …" if len(found) > MOST_NAMED else "")
    raise ServiceError("invalid_id", field="account", detail=f"there are several accounts, name one of them: {names}")
