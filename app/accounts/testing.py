"""Test accounts: what test keys make lives in an account of its own, with copies of the account's settings, domains,
senders, messages and lists, and without its people (docs/testing.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.accounts import account_named
from app.accounts.keys import issue_key
from app.audit.record import Act, recorded_as_one
from app.clock import this_second
from app.db.database import Transaction
from app.db.models import Account, ApiKey, Base, DkimKey, Domain, List, ListField, Message, SmsSender, table_of
from app.db.models.base import set_different
from app.distribution import COMMAND_LINE
from app.errors import ServiceError
from app.ids import copied_id
from app.lists.define import clear_values, follow_rules
from app.lists.fields import ADDRESS_KEYS

Row = TypeVar("Row", bound=Base)

COPIED_SETTINGS = (
    *("owner_email", "owner_confirmed", "allowed_networks", "default_from_name", "default_from_address"),
    *("rate_limit", "track_opens", "track_clicks", "machine_events", "email_priority", "sms_priority", "time_zone"),
    *("retain_content", "retain_recipients", "retain_captured", "retain_logs", "retain_audit"),
    *("brand_name", "brand_colour"),
)


def test_account_of(session: Session, account: Account) -> Account | None:
    """The test account of an account, or the account itself if it is one."""
    if account.test_of is not None:
        return account
    return session.scalars(select(Account).where(Account.test_of == account.id)).first()


def find_test_account(session: Session, account: Account) -> Account:
    """The test account. Raises `ServiceError` (`invalid_id`) if the account has none yet."""
    test_account = test_account_of(session, account)
    if test_account is None:
        making = f"`{COMMAND_LINE} keys create NAME --level LEVEL --test` creates the first one"
        detail = f"the account {account.name!r} has no test keys yet; {making}"
        raise ServiceError("invalid_id", field="account", detail=detail)
    return test_account


def create_key(
    transaction: Transaction, account: Account, name: str, level: str, *, is_test: bool
) -> tuple[ApiKey, str]:
    """Issues a key; returns it with its token. A test key is one of the test account, which is made for it if there is
    none. Raises what `issue_key` raises."""
    owner = refreshed_test_account(transaction, account) if is_test and account.test_of is None else account
    return issue_key(transaction, owner.id, name, level)


def refreshed_test_account(transaction: Transaction, account: Account) -> Account:
    """The test account, created if there is none, with copies of everything as it is now; what has not changed is not
    written.

    Raises `ServiceError`: `conflict` if another account has its name, `invalid_id` if the account is a test account.
    """
    if account.test_of is not None:
        raise ServiceError("invalid_id", field="account", detail=f"{account.name!r} is a test account itself")
    test = test_account_of(transaction, account) or _create(transaction, account)
    act = Act("test_account.refreshed", account.id, test.id, test.name)
    with recorded_as_one(transaction, act):
        rules_before = _rules(transaction, test)
        changes = [
            set_different(test, {name: getattr(account, name) for name in COPIED_SETTINGS}),
            _copy_named(transaction, List, account, test),
            _copy_named(transaction, Message, account, test),
            _copy_fields(transaction, account, test),
            _copy_senders(transaction, account, test),
            _copy_domains(transaction, account, test),
        ]
        _adapt_contacts(transaction, test, rules_before)
        if any(changes):
            test.last_modified_time = this_second()
    return test


def _create(session: Session, account: Account) -> Account:
    name, moment = f"{account.name} (test)", this_second()
    if account_named(session, name) is not None:
        detail = f"there is an account {name!r}, which is not a test account: rename it"
        raise ServiceError("conflict", field="name", detail=detail)
    test_account = Account(name=name, test_of=account.id, creation_time=moment, last_modified_time=moment)
    session.add(test_account)
    session.flush()
    return test_account


def _rows(session: Session, model: type[Row], account: Account) -> Sequence[Row]:
    statement = select(model).where(table_of(model).c.account_id == account.id)
    return session.scalars(statement.order_by(table_of(model).c.id)).all()


def _values(row: Base, test: Account, **others: Any) -> dict[str, Any]:
    """The columns of the copy of a row, some of them with other values."""
    kept = {column.name: getattr(row, column.name) for column in table_of(type(row)).columns if column.name != "id"}
    return {**kept, "account_id": test.id, **others}


def _make_equal(
    session: Session, model: type[Base], present: Mapping[Any, Base], values_by_key: Mapping[Any, Mapping[str, Any]]
) -> bool:
    """Makes the rows those that are wanted, by their keys; returns whether anything changed."""
    missing = [model(**values) for key, values in values_by_key.items() if key not in present]
    further = [row for key, row in present.items() if key not in values_by_key]
    session.add_all(missing)
    for row in further:
        session.delete(row)
    changes = [set_different(present[key], values) for key, values in values_by_key.items() if key in present]
    session.flush()
    return bool(missing or further) or any(changes)


def _copy_named(session: Session, model: type[List] | type[Message], account: Account, test: Account) -> bool:
    """Each copy has the id of its original, negated. One whose original was deleted stays, because reports refer to
    it."""
    # A test account has no automations: a copy of the mark would only cost.
    unlike = {"has_automations": False} if model is List else {}
    values_by_key = {
        row.id: _values(row, test, id=copied_id(row.id), copy_of=row.id, **unlike)
        for row in _rows(session, model, account)
    }
    present = {row.copy_of: row for row in _rows(session, model, test) if row.copy_of in values_by_key}
    return _make_equal(session, model, present, values_by_key)


def _copy_fields(session: Session, account: Account, test: Account) -> bool:
    """A copy of a list has exactly the fields of the original."""
    values_by_key = {
        (copied_id(row.list_id), row.key): _values(row, test, list_id=copied_id(row.list_id))
        for row in _rows(session, ListField, account)
    }
    copies = {list_id for list_id, _ in values_by_key} | {copied_id(row.id) for row in _rows(session, List, account)}
    present = {(row.list_id, row.key): row for row in _rows(session, ListField, test) if row.list_id in copies}
    return _make_equal(session, ListField, present, values_by_key)


class ListRules(NamedTuple):
    """What the contacts of a list depend on."""

    allow_duplicates: bool
    types: Mapping[str, str]
    """Key of a field -> its type."""

    @property
    def identifier_rules(self) -> tuple[bool, ...]:
        """What identifiers depend on."""
        return self.allow_duplicates, *(type_ in self.types.values() for type_ in ADDRESS_KEYS)


def _rules(session: Session, test: Account) -> dict[int, ListRules]:
    """Those of each list of the test account."""
    types: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for field in _rows(session, ListField, test):
        types[field.list_id][field.key] = field.type
    return {row.id: ListRules(row.allow_duplicates, types[row.id]) for row in _rows(session, List, test)}


def _adapt_contacts(session: Session, test: Account, rules_before: Mapping[int, ListRules]) -> None:
    """Makes the contacts of tests valid for the rules that their lists have now."""
    rules = _rules(session, test)
    for row in _rows(session, List, test):
        before, after = rules_before.get(row.id, rules[row.id]), rules[row.id]
        for key in before.types.keys() & after.types.keys():
            if before.types[key] != after.types[key]:
                clear_values(session, row, key)
        if before.identifier_rules != after.identifier_rules:
            follow_rules(session, row)


def _copy_senders(session: Session, account: Account, test: Account) -> bool:
    values_by_key = {
        row.address: _values(row, test, list_id=None if row.list_id is None else copied_id(row.list_id))
        for row in _rows(session, SmsSender, account)
    }
    return _make_equal(session, SmsSender, {row.address: row for row in _rows(session, SmsSender, test)}, values_by_key)


def _copy_domains(session: Session, account: Account, test: Account) -> bool:
    """Copies the domains with their keys, so that captured mails are signed like others."""
    originals = _rows(session, Domain, account)
    values_by_key = {row.name: _values(row, test) for row in originals}
    changed = _make_equal(session, Domain, {row.name: row for row in _rows(session, Domain, test)}, values_by_key)
    copies = {row.name: row.id for row in _rows(session, Domain, test)}
    ids = {row.id: copies[row.name] for row in originals}
    keys = {
        (ids[row.domain_id], row.selector): _values(row, test, domain_id=ids[row.domain_id])
        for row in _rows(session, DkimKey, account)
    }
    present = {(row.domain_id, row.selector): row for row in _rows(session, DkimKey, test)}
    return _make_equal(session, DkimKey, present, keys) or changed
