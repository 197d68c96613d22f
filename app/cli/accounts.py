"""`flask accounts`: the tenants of the service."""

from __future__ import annotations

from typing import Any

import click
from sqlalchemy.orm import Session

from app.accounts.accounts import create_account, delete_account, update_account
from app.accounts.find import all_accounts, find_account
from app.cli.base import CommandResult, Group, NamedItem, Row, given_options, print_rows
from app.db.database import Transaction
from app.db.models import Account

group = Group("accounts", help="Accounts: each has its own keys, lists, messages and reports.")
ACCOUNT = NamedItem(click.argument("named", metavar="ACCOUNT"), find_account, "installation")

RETENTIONS = (
    ("audit", "400d", "the audit log is"),
    ("logs", "30d", "the log of webhook deliveries is"),
    ("captured", "30d", "captured messages are"),
    ("recipients", "400d", "recipients are"),
    ("content", "7d", "content is"),
)
"""What an account may keep for a time of its own, with an example."""


def _retention(name: str, example: str, what: str) -> Any:
    after = " after the last outcome" if name == "content" else ""
    text = f"How long {what} kept{after}. Empty: use the setting."
    return click.option(f"--retain-{name}", metavar=f"{example}|off", help=text)


def attribute_options(command: Any) -> Any:
    """The options of `create` and `update`."""
    for option in (
        click.option("--time-zone", metavar="NAME", help="Time zone of times in messages, as an IANA name."),
        click.option("--brand-colour", metavar="#RRGGBB", help="Colour of the pages that recipients see."),
        click.option(
            "--brand-name", metavar="NAME", help="Name on the pages that recipients see. Empty: use the account name."
        ),
        click.option(
            "--rate-limit", metavar="N/minute", help="Requests that each key may make. Empty: use the setting."
        ),
        *(_retention(*retention) for retention in RETENTIONS),
        click.option("--sms-priority", metavar="high|normal", help="Priority of text messages if the send sets none."),
        click.option("--email-priority", metavar="high|normal", help="Priority of emails if the send sets none."),
        click.option("--machine-events", type=bool, metavar="on|off", help="Whether visits by machines cause events."),
        click.option("--track-clicks", type=bool, metavar="on|off", help="Whether clicks in emails are tracked."),
        click.option("--track-opens", type=bool, metavar="on|off", help="Whether opens of emails are tracked."),
        click.option("--any-network", is_flag=True, help="Accept clients from any network."),
        click.option(
            "--allow-network",
            metavar="CIDR",
            multiple=True,
            help="Accept clients only from this network. Repeatable.",
        ),
        click.option("--default-from-address", metavar="EMAIL", help="Sender address of mail if the send sets none."),
        click.option("--default-from-name", metavar="NAME", help="Name of the default sender of mail."),
        click.option(
            "--owner-confirmed/--owner-unconfirmed",
            default=None,
            help="Whether the owner has confirmed the owner's email address. Sends need this.",
        ),
        click.option("--owner-email", metavar="EMAIL", help="Address of the person who answers for the account."),
    ):
        command = option(command)
    return command


def _attributes(allow_network: tuple[str, ...], any_network: bool, **options: Any) -> dict[str, Any]:
    attributes = given_options(**options)
    if allow_network or any_network:
        attributes["allowed_networks"] = list(allow_network)
    return attributes


ROW_COLUMNS = (
    *("id", "name", "owner_email", "owner_confirmed", "allowed_networks", "default_from_name", "default_from_address"),
    *("brand_name", "brand_colour", "time_zone", "rate_limit", "track_opens", "track_clicks", "machine_events"),
    *("email_priority", "sms_priority", "retain_content", "retain_recipients", "retain_captured", "retain_logs"),
    *("retain_audit", "creation_time", "last_modified_time", "test_of"),
)
TABLE_COLUMNS = (
    *("id", "name", "owner_email", "owner_confirmed", "time_zone", "email_priority", "sms_priority", "creation_time"),
)


def _row(account: Account) -> Row:
    return {name: getattr(account, name) for name in ROW_COLUMNS}


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


@group.writes("create", "installation")
@click.argument("name")
@attribute_options
def create(transaction: Transaction, name: str, **options: Any) -> Row:
    """Create an account."""
    return _row(create_account(transaction, {"name": name, **_attributes(**options)}))


@group.writes("update", ACCOUNT)
@click.option("--name", help="The new name.")
@attribute_options
def update(transaction: Transaction, account: Account, name: str | None, **options: Any) -> Row:
    """Change an account. An empty value clears an attribute."""
    update_account(transaction, account, _attributes(**options) | ({} if name is None else {"name": name}))
    return _row(account)


@group.writes("delete", ACCOUNT)
@click.confirmation_option(prompt="Delete the account and all its contacts, messages and reports?", help="Do not ask.")
def delete(transaction: Transaction, account: Account) -> CommandResult:
    """Delete an account and everything in it."""
    delete_account(transaction, account)
    return CommandResult(f"deleted account {account.name}", {"id": account.id, "name": account.name, "deleted": True})
