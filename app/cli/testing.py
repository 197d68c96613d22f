"""`flask test-account`: the account in which test keys work (docs/testing.md)."""

from __future__ import annotations

from typing import Any

import click
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.accounts.testing import find_test_account, refreshed_test_account
from app.cli.base import CommandResult, Group, Row
from app.cli.progress import progress
from app.db.database import Transaction
from app.db.models import Account, ApiKey, Base, CapturedMessage, Contact, List, Message, Recipient, Webhook, table_of
from app.maintenance.account_deletion import delete_test_account, rows_to_delete
from app.services import Services

group = Group(
    "test-account",
    help="Test accounts. Test keys work in a test account, which has copies of the objects of its account.",
)

COUNTED_MODELS: dict[str, type[Base]] = {
    "keys": ApiKey,
    "webhooks": Webhook,
    "lists": List,
    "messages": Message,
    "contacts": Contact,
    "recipients": Recipient,
    "captured_messages": CapturedMessage,
}


def _row(session: Session, test: Account) -> Row:
    owner = session.get_one(Account, test.test_of)
    return {
        "id": test.id,
        "name": test.name,
        "account": owner.name,
        **{noun: _count(session, model, test.id) for noun, model in COUNTED_MODELS.items()},
        "creation_time": test.creation_time,
        "last_modified_time": test.last_modified_time,
    }


def _count(session: Session, model: type[Base], account_id: int) -> Any:
    table = table_of(model)
    return session.scalar(select(func.count()).select_from(table).where(table.c.account_id == account_id))


@group.reads("list", "installation")
def list_(session: Session) -> list[Row]:
    """Show all test accounts."""
    tests = select(Account).where(Account.test_of.is_not(None)).order_by(Account.name)
    return [_row(session, test) for test in session.scalars(tests)]


@group.reads("show")
def show(session: Session, account: Account) -> Row:
    """Show the test account of an account and the number of its objects."""
    return _row(session, find_test_account(session, account))


@group.writes("refresh")
def refresh(transaction: Transaction, account: Account) -> Row:
    """Refresh the copies in the test account: settings, domains, sms senders, messages, and lists with their fields."""
    owner = transaction.get_one(Account, find_test_account(transaction, account).test_of)
    return _row(transaction, refreshed_test_account(transaction, owner))


@group.runs("delete")
@click.confirmation_option(
    prompt="Delete the test account, its keys and everything created with them?", help="Do not ask."
)
def delete(parts: Services, account: Account) -> CommandResult:
    """Delete the test account, its keys and webhooks, and everything created with them. If interrupted, repeat it."""
    with parts.database.read() as session:
        test_account = find_test_account(session, account)
        total = rows_to_delete(session, test_account.id)
    with progress("deleting", total) as advance:
        deleted = delete_test_account(parts.database, test_account, advance)
    counts = ", ".join(_counted_noun(count, noun.replace("_", " ")) for noun, count in deleted.items() if count)
    facts = {"id": test_account.id, "name": test_account.name, "deleted": True, "rows": dict(deleted)}
    return CommandResult(f"deleted {test_account.name}{': ' if counts else ''}{counts}", facts)


def _counted_noun(count: int, noun: str) -> str:
    return f"{count} {noun.removesuffix('s') if count == 1 else noun}"
