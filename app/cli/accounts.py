"""`flask accounts`: the tenants of the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from app.accounts.accounts import create_account, delete_account, update_account
from app.accounts.find import all_accounts, find_account
from app.cli.base import Group, Row, given_options, json_option, print_done, print_row, print_rows
from app.db.models import Account
from app.http.context import services

group = Group("accounts", help="Accounts: each has its own keys, lists, messages and reports.")


RETENTIONS = (
    ("audit", "400d", "entries of the audit log are"),
    ("logs", "30d", "the log of webhook deliveries is"),
    ("captured", "30d", "captured messages are"),
    ("recipients", "400d", "recipients are"),
    ("content", "7d", "content is"),
)
"""What an account may keep for a time of its own, with an example."""


def _retention(name: str, example: str, what: str) -> Any:
    after = " after the last outcome" if name == "content" else ""
    text = f"How long {what} kept{after}; an empty text means the setting's."
    return click.option(f"--retain-{name}", metavar=f"{example}|off", help=text)


def attribute_options(command: Any) -> Any:
    """The options of `create` and `update`."""
    for option in (
        click.option("--time-zone", metavar="NAME", help="IANA name of the time zone of the times in messages."),
        click.option("--brand-colour", metavar="#RRGGBB", help="Colour of the pages that recipients see."),
        click.option("--brand-name", metavar="NAME", help="Name on these pages; an empty text means the account's."),
        click.option("--rate-limit", metavar="N/minute", help="Requests per key; an empty text means the setting's."),
        *(_retention(*one) for one in RETENTIONS),
        click.option("--sms-priority", metavar="high|normal", help="Priority of text messages whose send has none."),
        click.option("--email-priority", metavar="high|normal", help="Priority of emails whose send has none."),
        click.option("--machine-events", type=bool, metavar="on|off", help="Whether visits of machines cause events."),
        click.option("--track-clicks", type=bool, metavar="on|off", help="Whether clicks in emails are tracked."),
        click.option("--track-opens", type=bool, metavar="on|off", help="Whether opens of emails are tracked."),
        click.option("--any-network", is_flag=True, help="Accept clients from any network."),
        click.option(
            "--allow-network",
            metavar="CIDR",
            multiple=True,
            help="Accept clients from this network only; may be repeated.",
        ),
        click.option("--default-from-address", metavar="EMAIL", help="Sender of mail without a sender of its own."),
        click.option("--default-from-name", metavar="NAME"),
        click.option(
            "--owner-confirmed/--owner-unconfirmed",
            default=None,
            help="Whether the owner has confirmed the address; required for sends.",
        ),
        click.option("--owner-email", metavar="EMAIL"),
    ):
        command = option(command)
    return command


def _attributes(allow_network: tuple[str, ...], any_network: bool, **options: Any) -> dict[str, Any]:
    attributes = given_options(**options)
    if allow_network or any_network:
        attributes["allowed_networks"] = list(allow_network)
    return attributes


def _row(account: Account) -> Row:
    return {
        "id": account.id,
        "name": account.name,
        "owner_email": account.owner_email,
        "owner_confirmed": account.owner_confirmed,
        "allowed_networks": account.allowed_networks,
        "default_from_name": account.default_from_name,
        "default_from_address": account.default_from_address,
        "brand_name": account.brand_name,
        "brand_colour": account.brand_colour,
        "time_zone": account.time_zone,
        "rate_limit": account.rate_limit,
        "track_opens": account.track_opens,
        "track_clicks": account.track_clicks,
        "machine_events": account.machine_events,
        "email_priority": account.email_priority,
        "sms_priority": account.sms_priority,
        "retain_content": account.retain_content,
        "retain_recipients": account.retain_recipients,
        "retain_captured": account.retain_captured,
        "retain_logs": account.retain_logs,
        "retain_audit": account.retain_audit,
        "creation_time": account.creation_time,
        "last_modified_time": account.last_modified_time,
        "test_of": account.test_of,
    }


@group.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Show all accounts."""
    with services().database.read() as session:
        rows = [_row(account) for account in all_accounts(session)]
    shown = (
        *("id", "name", "owner_email", "owner_confirmed", "time_zone", "email_priority", "sms_priority"),
        "creation_time",
    )
    print_rows(rows if as_json else [_short(row, shown) for row in rows], as_json)


def _short(row: Row, shown: Sequence[str]) -> Row:
    return {**{name: row[name] for name in shown}, "test": row["test_of"] is not None}


@group.command("show")
@click.argument("account")
@json_option
def show(account: str, as_json: bool) -> None:
    """Show an account."""
    with services().database.read() as session:
        row = _row(find_account(session, account))
    print_row(row, as_json)


@group.command("create")
@click.argument("name")
@attribute_options
@json_option
def create(name: str, as_json: bool, **options: Any) -> None:
    """Create an account."""
    with services().database.write() as transaction:
        row = _row(create_account(transaction, {"name": name, **_attributes(**options)}))
    print_row(row, as_json)


@group.command("update")
@click.argument("account")
@click.option("--name", help="The new name.")
@attribute_options
@json_option
def update(account: str, name: str | None, as_json: bool, **options: Any) -> None:
    """Change an account; an empty text clears an attribute."""
    attributes = _attributes(**options) | ({} if name is None else {"name": name})
    with services().database.write() as transaction:
        found = find_account(transaction, account)
        update_account(transaction, found, attributes)
    print_row(_row(found), as_json)


@group.command("delete")
@click.argument("account")
@click.confirmation_option(prompt="Delete the account with all its contacts, messages and reports?")
@json_option
def delete(account: str, as_json: bool) -> None:
    """Delete an account with everything in it."""
    with services().database.write() as transaction:
        found = find_account(transaction, account)
        delete_account(transaction, found)
    print_done(f"deleted account {found.name}", {"id": found.id, "name": found.name, "deleted": True}, as_json)
