"""`flask accounts`: the tenants of the service."""

from __future__ import annotations

from typing import Any

import click
from sqlalchemy.orm import Session

from app.accounts.accounts import create_account, update_account
from app.accounts.attributes import ATTRIBUTES
from app.accounts.find import all_accounts, find_account
from app.cli.base import CommandResult, Group, NamedItem, Row, given_options, print_rows
from app.cli.progress import progress
from app.cli.resource import options_of
from app.db.database import Transaction
from app.db.models import Account
from app.maintenance.account_deletion import delete_account
from app.resources.definition import given_attributes, shown_values
from app.services import Services

group = Group("accounts", help="Accounts: each has its own keys, lists, messages and reports.")
ACCOUNT = NamedItem(click.argument("named", metavar="ACCOUNT"), find_account, "installation")

OPTIONS = [attribute for attribute in given_attributes(ATTRIBUTES) if attribute.key != "name"]
any_network_option = click.option("--any-network", is_flag=True, help="Let keys and sessions work from any network.")


def _attributes(any_network: bool, **options: Any) -> dict[str, Any]:
    attributes = given_options(**options)
    return {"allowed_networks": [], **attributes} if any_network else attributes


TABLE_COLUMNS = (
    *("id", "name", "owner_email", "owner_confirmed", "time_zone", "email_priority", "sms_priority", "creation_time"),
)


def _row(account: Account) -> Row:
    return shown_values(ATTRIBUTES, account)


def _print_accounts(rows: list[Row], as_json: bool) -> None:
    short = ({**{name: row[name] for name in TABLE_COLUMNS}, "test": row["test_of"] is not None} for row in rows)
    print_rows(rows if as_json else list(short), as_json)


@group.reads("list", "installation", _print_accounts)
def list_(session: Session) -> list[Row]:
    """Show all accounts."""
    return [_row(account) for account in all_accounts(session)]


@group.reads("show", ACCOUNT)
def show(_session: Session, account: Account) -> Row:
    """Show an account. Of a test account, `test_of` is the id of the account that it belongs to."""
    return _row(account)


@group.writes("create", "installation", params=options_of(OPTIONS, updates=False))
@click.argument("name")
@any_network_option
def create(transaction: Transaction, name: str, **options: Any) -> Row:
    """Create an account."""
    return _row(create_account(transaction, {"name": name, **_attributes(**options)}))


@group.writes("update", ACCOUNT, params=options_of(OPTIONS, updates=True))
@click.option("--name", help="The new name.")
@any_network_option
def update(transaction: Transaction, account: Account, name: str | None, **options: Any) -> Row:
    """Change an account. An empty value clears an attribute."""
    update_account(transaction, account, _attributes(**options) | ({} if name is None else {"name": name}))
    return _row(account)


@group.runs("delete", ACCOUNT)
@click.confirmation_option(prompt="Delete the account and all its contacts, messages and reports?", help="Do not ask.")
def delete(parts: Services, account: Account) -> CommandResult:
    """Delete an account and everything in it. If interrupted, repeat it."""
    with progress("deleting", None) as advance:
        delete_account(parts.database, account, advance)
    return CommandResult(f"deleted account {account.name}", {"id": account.id, "name": account.name, "deleted": True})
