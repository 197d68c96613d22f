"""Test accounts: what test keys make lives in an account of its own, with copies of the account's settings, domains,
senders, messages and lists, and without its people (docs/testing.md)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.accounts.accounts import account_named
from app.clock import this_second
from app.db.models import Account, Base, DkimKey, Domain, List, ListField, Message, SmsSender, table_of
from app.errors import ServiceError
from app.ids import copied_id

COPIED_SETTINGS = (
    *("owner_email", "owner_confirmed", "allowed_networks", "default_from_name", "default_from_address"),
    *("rate_limit", "track_opens", "track_clicks", "machine_events", "email_priority", "sms_priority", "time_zone"),
)


def _test_account_of(session: Session, account: Account) -> Account | None:
    """The test account of an account, or the account itself if it is one."""
    if account.test_of is not None:
        return account
    return session.scalars(select(Account).where(Account.test_of == account.id)).first()


def find_test_account(session: Session, account: Account) -> Account:
    """The test account. Raises `ServiceError` (`invalid_id`) if the account has none yet."""
    found = _test_account_of(session, account)
    if found is None:
        detail = f"the account {account.name!r} has no test keys yet: flask keys create NAME --level LEVEL --test"
        raise ServiceError("invalid_id", field="account", detail=detail)
    return found


def refreshed_test_account(session: Session, account: Account) -> Account:
    """The test account, created if there is none, with copies of everything as it is now.

    Raises `ServiceError`: `conflict` if another account has its name, `invalid_id` if the account is a test account.
    """
    if account.test_of is not None:
        raise ServiceError("invalid_id", field="account", detail=f"{account.name!r} is a test account itself")
    found = _test_account_of(session, account) or _create(session, account)
    for name in COPIED_SETTINGS:
        setattr(found, name, getattr(account, name))
    found.last_modified_time = this_second()
    lists = _copy_named(session, List, account, found)
    for original, copy in lists:
        _copy_fields(session, original, copy)
    _copy_named(session, Message, account, found)
    _copy_senders(session, account, found, {original.id: copy.id for original, copy in lists})
    _copy_domains(session, account, found)
    session.flush()
    return found


def _create(session: Session, account: Account) -> Account:
    name, moment = f"{account.name} (test)", this_second()
    if account_named(session, name) is not None:
        detail = f"there is an account {name!r}, which is no test account: give it another name"
        raise ServiceError("conflict", field="name", detail=detail)
    found = Account(name=name, test_of=account.id, creation_time=moment, last_modified_time=moment)
    session.add(found)
    session.flush()
    return found


def _values(row: Base, besides: tuple[str, ...]) -> dict[str, Any]:
    """The columns of a row, without those that every copy has of its own."""
    return {
        column.name: getattr(row, column.name)
        for column in table_of(type(row)).columns
        if column.name not in ("id", *besides)
    }


def _copy_named(
    session: Session, model: type[List] | type[Message], account: Account, test: Account
) -> list[tuple[Any, Any]]:
    """Each original with its copy, which has the original's id, negated. A copy whose original was deleted stays,
    because reports refer to it."""
    found: list[Any] = list(session.scalars(select(model).where(model.account_id == test.id)))
    copies = {copy.copy_of: copy for copy in found if copy.copy_of is not None}
    originals: list[Any] = list(session.scalars(select(model).where(model.account_id == account.id).order_by(model.id)))
    pairs = []
    for original in originals:
        # A test account has no automations: a copy of the mark would only cost.
        values = _values(original, ("account_id", "copy_of", "has_automations"))
        copy = copies.get(original.id)
        if copy is None:
            copy = model(id=copied_id(original.id), account_id=test.id, copy_of=original.id, **values)
            session.add(copy)
        else:
            _set(copy, values)
        pairs.append((original, copy))
    session.flush()
    return pairs


def _set(row: Base, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(row, name, value)


def _copy_fields(session: Session, original: List, copy: List) -> None:
    """The copy has exactly the fields of the original."""
    fields = session.scalars(select(ListField).where(ListField.list_id.in_((original.id, copy.id)))).all()
    present = {field.key: field for field in fields if field.list_id == copy.id}
    for field in (field for field in fields if field.list_id == original.id):
        values, own = _values(field, ("account_id", "list_id")), present.pop(field.key, None)
        if own is None:
            session.add(ListField(account_id=copy.account_id, list_id=copy.id, **values))
        else:
            _set(own, values)
    for field in present.values():
        session.delete(field)


def _copy_senders(session: Session, account: Account, test: Account, list_ids: dict[int, int]) -> None:
    session.execute(delete(SmsSender).where(SmsSender.account_id == test.id))
    for sender in session.scalars(select(SmsSender).where(SmsSender.account_id == account.id)):
        list_id = None if sender.list_id is None else list_ids[sender.list_id]
        session.add(SmsSender(account_id=test.id, list_id=list_id, **_values(sender, ("account_id", "list_id"))))


def _copy_domains(session: Session, account: Account, test: Account) -> None:
    """With their keys, so that captured mails are signed like others."""
    session.execute(delete(Domain).where(Domain.account_id == test.id))
    for domain in session.scalars(select(Domain).where(Domain.account_id == account.id)).all():
        copy = Domain(account_id=test.id, **_values(domain, ("account_id",)))
        session.add(copy)
        session.flush()
        for key in session.scalars(select(DkimKey).where(DkimKey.domain_id == domain.id)):
            values = _values(key, ("account_id", "domain_id"))
            session.add(DkimKey(account_id=test.id, domain_id=copy.id, **values))
