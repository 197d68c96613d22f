"""The accounts of the installation, and one with its settings, for operators (docs/console-contents.md#accounts)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.accounts import account_named
from app.accounts.attributes import ATTRIBUTES
from app.accounts.testing import find_test_account, refreshed_test_account
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Account
from app.errors import FieldError, ServiceError
from app.ids import existing, id_in
from app.names import CONTROL, LONGEST_NAME
from app.resources.definition import given_attributes, values_of

PATH = "/console/accounts"
INPUTS = given_attributes(ATTRIBUTES)
"""The attributes that the form of an account sets."""
NETWORKS = "allowed_networks"
MAX_NETWORKS = 1000
"""Networks that a form may name."""
Form = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AccountRow:
    """An account, and the id of its test account."""

    account: Account
    test_id: int | None

    @property
    def path(self) -> str:
        """The path of the account's page."""
        return path_of(self.account.id)


def path_of(account_id: int) -> str:
    """The path of the page of an account."""
    return f"{PATH}/{account_id}"


def list_accounts(session: Session, after: str, limit: int) -> tuple[Sequence[AccountRow], str | None]:
    """The accounts by name whose name follows `after`, without test accounts, and the name behind which the next page
    begins: two statements."""
    live = select(Account).where(Account.test_of.is_(None), Account.name > after)
    accounts = session.scalars(live.order_by(Account.name).limit(limit + 1)).all()
    shown_accounts = accounts[:limit]
    tests = _test_accounts(session, [account.id for account in shown_accounts])
    listed = [AccountRow(account, tests.get(account.id)) for account in shown_accounts]
    return listed, shown_accounts[-1].name if len(accounts) > limit else None


def shown_account(session: Session, account_id: int) -> AccountRow:
    """One account as its page shows it: two statements. Raises `not_found`."""
    account = existing(session.get(Account, account_id), "account", account_id)
    return AccountRow(account, _test_accounts(session, [account_id]).get(account_id))


def _test_accounts(session: Session, account_ids: Sequence[int]) -> Mapping[int, int]:
    """Id of an account -> that of its test account."""
    tests = select(Account.test_of, Account.id).where(in_json(Account.test_of, account_ids))
    return {owner: test_id for owner, test_id in session.execute(tests) if owner is not None}


def names_of_accounts(session: Session, account_ids: Collection[int | None]) -> Mapping[int, str]:
    """Id -> name of those that exist: one statement."""
    ids = [account_id for account_id in account_ids if account_id is not None]
    rows = session.execute(select(Account.id, Account.name).where(in_json(Account.id, ids)))
    return {row.id: row.name for row in rows}


def account_by_name_or_id(session: Session, text: str) -> Account | None:
    """The account with that whole name, else with that id."""
    if CONTROL.search(text):
        return None
    account = account_named(session, text)
    if account is None and (account_id := id_in(text)) is not None:
        account = session.get(Account, account_id)
    return account


def attributes_of(form: Form) -> dict[str, Any]:
    """The attributes that the form sets. Raises `invalid_string` or `too_long` for each text that cannot be stored,
    which the command line would not have got from a terminal."""
    values = values_of(INPUTS, form)
    errors = [*_faults(form), *([_too_many()] if len(values[NETWORKS]) > MAX_NETWORKS else [])]
    if errors:
        raise ServiceError.of(errors)
    return values


def _faults(form: Form) -> Sequence[FieldError]:
    faults = []
    for name in (attribute.key for attribute in INPUTS if attribute.key != NETWORKS):
        if CONTROL.search(form[name]):
            faults.append(FieldError("invalid_string", field=name, detail="contains a control character"))
        elif len(form[name]) > LONGEST_NAME:
            faults.append(FieldError("too_long", field=name, detail=f"has more than {LONGEST_NAME} characters"))
    return faults


def _too_many() -> FieldError:
    return FieldError("too_long", field=NETWORKS, detail=f"has more than {MAX_NETWORKS} networks")


def refresh_test_account(transaction: Transaction, account_id: int) -> None:
    """Brings the copies of the test account up to date. Raises `not_found`, and `invalid_id` if there is none."""
    account = existing(transaction.get(Account, account_id), "account", account_id)
    owner = transaction.get_one(Account, find_test_account(transaction, account).test_of)
    refreshed_test_account(transaction, owner)
