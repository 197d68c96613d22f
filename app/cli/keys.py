"""`flask keys`: API keys, whose tokens are shown once."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import click
from sqlalchemy.orm import Session

from app.accounts.auth import SCOPES
from app.accounts.keys import find_key, list_keys, restore_key, revoke_key, rotate_key, set_smtp_list
from app.accounts.testing import create_key
from app.cli.base import CommandResult, Group, NamedItem, Row
from app.db.database import Transaction
from app.db.models import Account, ApiKey

# Durations on the command line: `30m`, `12h`, `7d`, `2w`, `0`.

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
DURATION = re.compile(rf"([0-9]{{1,9}})([{''.join(UNITS)}])")


class Duration(click.ParamType[timedelta]):
    """A duration of at most `longest`."""

    name = "duration"

    def __init__(self, longest: timedelta) -> None:
        self._longest = longest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Reads a number with its unit."""
        if isinstance(value, timedelta):
            return value
        match = DURATION.fullmatch(value.strip())
        if value.strip() != "0" and not match:
            self.fail(f"{value!r} is not a duration such as 30m, 12h, 7d, 2w or 0", param, ctx)
        try:
            duration = timedelta(**{UNITS[match[2]]: int(match[1])}) if match else timedelta()
        except OverflowError:
            duration = timedelta.max
        if duration > self._longest:
            self.fail(f"{value!r} is more than {self._longest.days} days", param, ctx)
        return duration


group = Group("keys", help="API keys. A token is shown only once, when its key is created or rotated.")
LONGEST_OVERLAP = timedelta(days=366)
KEY = NamedItem(click.argument("named", metavar="NAME"), find_key)


LIST_OPTION = click.option("--list", "list_", metavar="NAME|ID", help="The list of mails by SMTP that name none.")


def _row(session: Session, key: ApiKey) -> Row:
    return {
        "id": key.id,
        "name": key.name,
        "access_level": key.access_level,
        "list_id": key.list_id,
        "test": session.get_one(Account, key.account_id).test_of is not None,
        "begins_with": key.token_hint,
        "creation_time": key.creation_time,
        "last_used_time": key.last_used_time,
        "valid_until": key.valid_until,
        "expiry_time": key.expiry_time,
        "revoked_time": key.revoked_time,
    }


@group.reads("list", of="all accounts")
def list_(session: Session, account: Account) -> list[Row]:
    """Show the keys of an account, or of all, with the time of their last use but never with their tokens."""
    return [_row(session, key) for key in list_keys(session, account.id)]


@group.reads("show", of=KEY)
def show(session: Session, key: ApiKey) -> Row:
    """Show a key without its token."""
    return {**_row(session, key), "scopes": list(SCOPES[key.access_level])}


@group.writes("create")
@click.argument("name")
@click.option(
    "--level", "access_level", type=click.Choice(list(SCOPES)), required=True, help="The access level of the key."
)
@click.option("--test", is_flag=True, help="Create a test key: its messages are captured, not delivered.")
@LIST_OPTION
def create(
    transaction: Transaction, account: Account, *, name: str, access_level: str, test: bool, list_: str | None
) -> Row:
    """Create a key and show its token, once."""
    key, token = create_key(transaction, account, name, access_level, is_test=test)
    set_smtp_list(transaction, key, list_)
    owner = transaction.get_one(Account, key.account_id)
    marks = {"account": owner.name, "test": True} if owner.test_of is not None else {}
    return {"id": key.id, "name": key.name, "access_level": key.access_level, **marks, "token": token}


@group.writes("update", of=KEY)
@LIST_OPTION
@click.option("--no-list", is_flag=True, help="Take the list away.")
def update(transaction: Transaction, key: ApiKey, list_: str | None, no_list: bool) -> Row:
    """Give a key another list for mails that are sent by SMTP."""
    if (list_ is None) != no_list:
        raise click.UsageError("give either --list or --no-list")
    set_smtp_list(transaction, key, list_)
    return _row(transaction, key)


@group.writes("rotate", of=KEY)
@click.option(
    "--overlap",
    type=Duration(LONGEST_OVERLAP),
    default="7d",
    show_default=True,
    metavar="DURATION",
    help="How long the old token keeps working, such as 7d or 12h. 0 ends it at once.",
)
def rotate(transaction: Transaction, old: ApiKey, overlap: timedelta) -> Row:
    """Create a new token for a key and show it, once. The old token keeps working for a while."""
    key, token, end = rotate_key(transaction, old, overlap)
    old_key = {"old_key": old.name, "old_key_valid_until": end}
    return {"id": key.id, "name": key.name, "access_level": key.access_level, **old_key, "token": token}


@group.writes("revoke", of=KEY)
def revoke(transaction: Transaction, key: ApiKey) -> CommandResult:
    """Revoke a key. The key and its old tokens stop working at once."""
    ended = revoke_key(transaction, key)
    said = f"revoked key {key.name}" if ended else f"key {key.name} was already revoked"
    return CommandResult(said, _row(transaction, key))


@group.writes("restore", of=KEY)
def restore(transaction: Transaction, key: ApiKey) -> CommandResult:
    """Take back a revocation of the last 30 seconds. The old tokens that ended with the key work again, too."""
    restore_key(transaction, key)
    return CommandResult(f"restored key {key.name}", _row(transaction, key))
