"""`flask test-account`: the account in which test keys work (docs/testing.md)."""

from __future__ import annotations

from typing import Any

import click
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.accounts.testing import find_test_account, refreshed_test_account
from app.cli.base import Group, Row, account_option, json_option, print_done, print_row, print_rows
from app.cli.progress import progress
from app.db.models import Account, ApiKey, Base, CapturedMessage, Contact, List, Message, Recipient, Webhook, table_of
from app.http.context import services
from app.maintenance.test_accounts import delete_test_account, rows_to_delete

group = Group("test-account", help="The account in which test keys work, with copies of what their account has.")

COUNTED: dict[str, type[Base]] = {
    "keys": ApiKey,
    "webhooks": Webhook,
    "lists": List,
    "messages": Message,
    "contacts": Contact,
    "recipients": Recipient,
    "captured_messages": CapturedMessage,
}


def _find(session: Session, account: str | None) -> Account:
    return find_test_account(session, find_account(session, account))


def _row(session: Session, test: Account) -> Row:
    owner = session.get_one(Account, test.test_of)
    return {
        "id": test.id,
        "name": test.name,
        "account": owner.name,
        **{noun: _count(session, model, test.id) for noun, model in COUNTED.items()},
        "creation_time": test.creation_time,
        "last_modified_time": test.last_modified_time,
    }


def _count(session: Session, model: type[Base], account_id: int) -> Any:
    table = table_of(model)
    return session.scalar(select(func.count()).select_from(table).where(table.c.account_id == account_id))


@group.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Show all test accounts."""
    with services().database.read() as session:
        tests = select(Account).where(Account.test_of.is_not(None)).order_by(Account.name)
        rows = [_row(session, one) for one in session.scalars(tests)]
    print_rows(rows, as_json)


@group.command("show")
@account_option
@json_option
def show(account: str | None, as_json: bool) -> None:
    """Show the test account of an account, and how much is in it."""
    with services().database.read() as session:
        row = _row(session, _find(session, account))
    print_row(row, as_json)


@group.command("refresh")
@account_option
@json_option
def refresh(account: str | None, as_json: bool) -> None:
    """Bring its copies up to date: settings, domains, sms senders, messages, lists with their fields."""
    with services().database.write() as transaction:
        owner = transaction.get_one(Account, _find(transaction, account).test_of)
        row = _row(transaction, refreshed_test_account(transaction, owner))
    print_row(row, as_json)


@group.command("delete")
@click.confirmation_option(prompt="Delete the test account with its keys and everything that they have made?")
@account_option
@json_option
def delete(account: str | None, as_json: bool) -> None:
    """Delete it with its keys and webhooks and everything that they have made; run again if interrupted."""
    database = services().database
    with database.read() as session:
        found = _find(session, account)
        total = rows_to_delete(session, found.id)
        session.expunge(found)
    with progress("deleting", total) as advance:
        deleted = delete_test_account(database, found, advance)
    counts = ", ".join(_counted(count, noun.replace("_", " ")) for noun, count in deleted.items() if count)
    facts = {"id": found.id, "name": found.name, "deleted": True, "rows": dict(deleted)}
    print_done(f"deleted {found.name}{': ' if counts else ''}{counts}", facts, as_json)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun.removesuffix('s') if count == 1 else noun}"
