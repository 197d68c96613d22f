"""`flask suppressions`: addresses that are not sent to, because they are unsubscribed or blocked."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

import click
from sqlalchemy.orm import Session

from app.accounts.exports import record_export
from app.accounts.find import find_account
from app.addresses import NormalizedAddress, normalize_address
from app.bulk_actions.kinds import UNBLOCK
from app.bulk_actions.preview import Preview
from app.cli.base import (
    CommandResult,
    Group,
    Row,
    WrongValue,
    account_option,
    address_kind,
    json_option,
    limit_option,
    need_installation_key,
    refuse_other_key,
)
from app.cli.bulk_actions import ask_for_all, print_asked
from app.cli.csv_files import export_options, export_rows, format_to_write
from app.cli.holds import dry_run_option, yes_option
from app.db.database import Transaction
from app.db.lookup import find_by_name_or_id
from app.db.models import Account, List
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.ids import shown_id
from app.services import Services
from app.suppressions.acts import add_suppression, remove_blocked, remove_unsubscribed
from app.suppressions.add import NewSuppression
from app.suppressions.entries import Suppression, count_entries, query_by, read_all, read_entries
from app.suppressions.filters import CONSOLE_SUPPRESSIONS
from app.suppressions.states import BLOCKED, STATES, UNSUBSCRIBED

group = Group("suppressions", help="Unsubscribed and blocked addresses.")

# `flask suppressions export`: unsubscribed and blocked addresses as a CSV file.

EXPORT_COLUMNS = ("state", "kind", "address", "list_id", "list", "reason", "creation_time", "reply", "uuid")


@group.command("export")
@export_options
@click.option("--state", type=click.Choice(STATES), help="Only addresses in this state.")
@account_option
@json_option
def export(
    file: str, *, delimiter: str | None, encoding: str | None, state: str | None, account: str | None, as_json: bool
) -> None:
    """Write the suppressed addresses of an account to a CSV file. Use - for standard output."""
    query = query_by(state=state)
    with services().database.read() as session:
        account_id = find_account(session, account).id
        total = count_entries(session, account_id, query)
        pages = (list(map(_row, entries)) for entries in read_all(session, account_id, query))
        record_export(services().database, "suppression.exported", account_id, suppressions=total)
        export_rows(file, format_to_write(delimiter, encoding), EXPORT_COLUMNS, pages, total, as_json=as_json)


MAX_LISTED_ENTRIES = 20
"""Remaining entries that are listed with their commands."""

FORGOTTEN_ADDRESS = "forgotten"
"""What is shown in place of an address of which only a digest is kept (docs/privacy.md#what-is-kept)."""


list_option = click.option("--list", "list_", metavar="NAME|ID", help="For this list. Default: account-wide.")


def _list_id(session: Session, account_id: int, name: str | None) -> int | None:
    return None if name is None else find_by_name_or_id(session, List, account_id, name, "list").id


def _row(entry: Suppression) -> Row:
    return {
        **{"state": entry.state, "kind": entry.kind, "address": entry.address or FORGOTTEN_ADDRESS},
        **{"list_id": entry.list_id, "list": entry.list_name, "reason": entry.reason, "reply": entry.reply},
        **{"uuid": entry.uuid, "creation_time": entry.creation_time},
    }


def _entries_of(session: Session, account_id: int, address: str) -> list[Row]:
    query = query_by(**dict([_normalized(address)]))
    pages = read_all(session, account_id, query, with_forgotten=True)
    return [_row(entry) for page in pages for entry in page]


@group.reads("list", "all accounts")
@click.option("--state", type=click.Choice(STATES), help="Only addresses in this state.")
@limit_option
def list_(session: Session, account: Account, state: str | None, limit: int) -> list[Row]:
    """Show suppressed addresses, newest first. Addresses without a list are unsubscribed account-wide."""
    query = replace(query_by(state=state), limit=limit)
    return [_row(entry) for entry in read_entries(session, account.id, query, with_forgotten=True)[0]]


@group.reads("show", "all accounts")
@click.argument("address")
def show(session: Session, account: Account, address: str) -> list[Row]:
    """Show why an email address or a mobile number gets no messages."""
    refuse_other_key(services())
    return _entries_of(session, account.id, address)


def _normalized(address: str) -> NormalizedAddress:
    return normalize_address(address_kind(address), address)


@group.writes("unsubscribe", needs_key=True)
@click.argument("address")
@list_option
def unsubscribe(transaction: Transaction, account: Account, address: str, list_: str | None) -> CommandResult:
    """Unsubscribe an email address or a mobile number. Its contacts are updated, and webhooks receive events."""
    list_id, key = _list_id(transaction, account.id, list_), services().settings.secret_key
    new = NewSuppression(_normalized(address), UNSUBSCRIBED, list_id)
    changed = add_suppression(transaction, key, account.id, new).contacts
    facts = {"address": address, "list_id": shown_id(list_id), "unsubscribed": True, "contacts_changed": changed}
    return CommandResult(f"{address} is unsubscribed{_where(list_)}; contacts changed: {changed}", facts)


@group.writes("resubscribe", "installation", needs_key=True)
@click.argument("address")
@list_option
@account_option
def resubscribe(transaction: Transaction, address: str, list_: str | None, account: str | None) -> CommandResult:
    """Resubscribe an email address or a mobile number to a list and account-wide. Without a list, resubscribe it
    account-wide only. Its contacts are updated, and webhooks receive events. If something else still suppresses the
    address, it is printed with the command that removes it."""
    account_id = find_account(transaction, account).id
    list_id, key = _list_id(transaction, account_id, list_), services().settings.secret_key
    changed = remove_unsubscribed(transaction, key, account_id, _normalized(address), list_id)
    left = _entries_of(transaction, account_id, address)
    state = "no longer unsubscribed account-wide" if list_ is None and left else f"subscribed{_where(list_)}"
    said = [f"{address} is {state}; contacts changed: {changed}", *_remaining_entries(address, account, left)]
    facts = {"address": address, "list_id": shown_id(list_id), "unsubscribed": False, "contacts_changed": changed}
    return CommandResult("\n".join(said), {**facts, "left": left})


def _remaining_entries(address: str, account: str | None, left: Sequence[Row]) -> Iterator[str]:
    """The entries that still suppress the address, each with the command that removes it."""
    named = [] if account is None else ["--account", account]
    for entry in left[:MAX_LISTED_ENTRIES]:
        if entry["state"] == "blocked":
            command, what = ["unblock", address], f"blocked ({entry['reason']})"
        else:
            command = ["resubscribe", address, "--list", str(entry["list"])]
            what = f"unsubscribed in {entry['list']}"
        yield f"still {what}: {COMMAND_LINE} suppressions {shlex.join([*command, *named])}"
    if len(left) > MAX_LISTED_ENTRIES:
        show = shlex.join(["show", address, *named])
        yield f"and {len(left) - MAX_LISTED_ENTRIES} more: {COMMAND_LINE} suppressions {show}"


def _where(list_: str | None) -> str:
    return f" in {list_}" if list_ is not None else " account-wide"


def _is_filter(text: str) -> bool:
    """An address may have an equals sign, too."""
    name, equals, _ = text.partition("=")
    return bool(equals) and name.partition(":")[0] in CONSOLE_SUPPRESSIONS.filters


@group.writes("block", needs_key=True)
@click.argument("address")
@click.option("--reason", default="blocked by hand", show_default=True, help="Why; the suppression shows it.")
def block(transaction: Transaction, account: Account, address: str, reason: str) -> CommandResult:
    """Block an email address or a mobile number. It gets no messages from any list."""
    new = NewSuppression(_normalized(address), BLOCKED, reason=reason)
    add_suppression(transaction, services().settings.secret_key, account.id, new)
    return CommandResult(f"{address} is blocked", {"address": address, "blocked": True})


@group.runs("unblock", "installation", print_asked)
@click.argument("targets", nargs=-1, required=True, metavar="ADDRESS | FILTER...")
@dry_run_option
@yes_option
@account_option
def unblock(
    parts: Services, *, targets: tuple[str, ...], dry_run: bool, yes: bool, account: str | None
) -> CommandResult | Preview:
    """Unblock an email address or a mobile number, or all blocked addresses of an account that match filters, such as
    reply="Relay access denied"."""
    if len(targets) > 1 or _is_filter(targets[0]):
        return ask_for_all(parts, UNBLOCK, targets, account=account, dry_run=dry_run, yes=yes)
    if dry_run:
        raise WrongValue("--dry-run counts what filters match, such as reply=TEXT")
    (address,) = targets
    need_installation_key(parts)
    with parts.database.write() as transaction:
        account_id = find_account(transaction, account).id
        was_blocked = remove_blocked(transaction, parts.settings.secret_key, account_id, _normalized(address))
    said = f"{address} is no longer blocked" if was_blocked else f"{address} was not blocked"
    return CommandResult(said, {"address": address, "blocked": False, "was_blocked": was_blocked})
