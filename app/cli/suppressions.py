"""`flask suppressions`: addresses that are not sent to, because they are unsubscribed or blocked."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import click
from sqlalchemy import ColumnElement, func, literal, null, select
from sqlalchemy.orm import Session

from app.accounts.exports import record_export
from app.accounts.find import find_account
from app.addresses import NormalizedAddress, address_forms, normalize_address
from app.bulk_actions.kinds import UNBLOCK
from app.bulk_actions.preview import Preview
from app.cli.base import CommandResult, Group, Row, WrongValue, account_option, address_kind, json_option, limit_option
from app.cli.bulk_actions import ask_for_all, print_asked
from app.cli.csv_files import Rows, export_options, export_rows, format_to_write
from app.cli.holds import dry_run_option, yes_option
from app.db.address_forms import PREFIX, find_digests
from app.db.database import Transaction
from app.db.lookup import find_by_name_or_id
from app.db.models import Account, BlockedAddress, List, Unsubscriber
from app.db.pages import pages_of
from app.db.public_ids import public_id
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.ids import shown_id
from app.services import Services
from app.suppressions.acts import add_blocked, add_unsubscribed, remove_blocked, remove_unsubscribed
from app.suppressions.filters import SUPPRESSIONS

group = Group("suppressions", help="Unsubscribed and blocked addresses.")

# `flask suppressions export`: unsubscribed and blocked addresses as a CSV file.

EXPORT_COLUMNS = ("state", "kind", "address", "list_id", "list", "reason", "creation_time", "reply")
Model = type[Unsubscriber | BlockedAddress]
ROW_COLUMNS = ("state", "kind", "address", "list_id", "list", "reason", "reply", "creation_time")
MODELS: dict[str, Model] = {"unsubscribed": Unsubscriber, "blocked": BlockedAddress}


@group.command("export")
@export_options
@click.option("--state", type=click.Choice(tuple(MODELS)), help="Only addresses in this state.")
@account_option
@json_option
def export(
    file: str, *, delimiter: str | None, encoding: str | None, state: str | None, account: str | None, as_json: bool
) -> None:
    """Write the suppressed addresses of an account to a CSV file. Use - for standard output."""
    states = tuple(MODELS) if state is None else (state,)
    with services().database.read() as session:
        account_id = find_account(session, account).id
        total = sum(_number(session, MODELS[entry_state], account_id) for entry_state in states)
        pages = chain.from_iterable(_pages(session, entry_state, account_id) for entry_state in states)
        record_export(services().database, "suppression.exported", account_id, suppressions=total)
        export_rows(file, format_to_write(delimiter, encoding), EXPORT_COLUMNS, pages, total, as_json=as_json)


def _number(session: Session, model: Model, account_id: int) -> int:
    return session.execute(select(func.count(model.id)).where(*_export_filter(model, account_id))).scalar_one()


def _pages(session: Session, state: str, account_id: int) -> Iterator[Rows]:
    """The entries by address."""
    model = MODELS[state]
    statement = _entries(state).where(*_export_filter(model, account_id))
    for page in pages_of(session, statement, (model.kind, model.address, model.id)):
        yield [dict(zip(EXPORT_COLUMNS, row, strict=False)) for row in page]


def _export_filter(model: Model, account_id: int) -> tuple[Any, ...]:
    """The conditions of entries to export. Those of forgotten people stay out: a digest is of no use elsewhere
    (docs/privacy.md#what-is-kept)."""
    return model.account_id == account_id, ~model.address.startswith(PREFIX)


def _entries(state: str) -> Any:
    if state == "blocked":
        blocked = BlockedAddress
        columns = blocked.kind, blocked.address, null(), null(), blocked.reason, blocked.creation_time, blocked.reply
        return select(literal(state), *columns)
    entry = Unsubscriber
    unsubscribed = entry.kind, entry.address, public_id(entry.list_id), List.name, null(), entry.creation_time, null()
    return select(literal(state), *unsubscribed).outerjoin(List, List.id == entry.list_id)


MAX_LISTED_ENTRIES = 20
"""Remaining entries that are listed with their commands."""

FORGOTTEN_ADDRESS = "forgotten"
"""What is shown in place of an address of which only a digest is kept (docs/privacy.md#what-is-kept)."""


list_option = click.option("--list", "list_", metavar="NAME|ID", help="For this list. Default: account-wide.")


def _list_id(session: Session, account_id: int, name: str | None) -> int | None:
    return None if name is None else find_by_name_or_id(session, List, account_id, name, "list").id


def _listed_rows(
    session: Session, state: str, account_id: int, limit: int | None, address: str | None = None
) -> list[Row]:
    """The entries with that state, the newest first."""
    model = MODELS[state]
    statement = _entries(state).where(*_address_filter(session, model, account_id, address))
    rows = session.execute(statement.order_by(model.id.desc()).limit(limit))
    return [_row(dict(zip(EXPORT_COLUMNS, row, strict=True))) for row in rows]


def _address_filter(
    session: Session, model: Model, account_id: int, address: str | None
) -> Iterator[ColumnElement[bool]]:
    yield model.account_id == account_id
    if address is not None:
        kind = address_kind(address)
        yield model.kind == kind
        normalized = normalize_address(kind, address)
        yield model.address.in_([*address_forms(normalized.key), *find_digests(session, [normalized])])


def _row(entry: Row) -> Row:
    is_forgotten = entry["address"].startswith(PREFIX)
    return {**{name: entry[name] for name in ROW_COLUMNS}, **({"address": FORGOTTEN_ADDRESS} if is_forgotten else {})}


def _entries_of(session: Session, account_id: int, address: str) -> list[Row]:
    return [row for state in MODELS for row in _listed_rows(session, state, account_id, None, address)]


@group.reads("list", "all accounts")
@click.option("--state", type=click.Choice(("unsubscribed", "blocked")), help="Only addresses in this state.")
@limit_option
def list_(session: Session, account: Account, state: str | None, limit: int) -> list[Row]:
    """Show suppressed addresses, newest first. Addresses without a list are unsubscribed account-wide."""
    return [
        row
        for entry_state in MODELS
        if state in (None, entry_state)
        for row in _listed_rows(session, entry_state, account.id, limit)
    ]


@group.reads("show", "all accounts")
@click.argument("address")
def show(session: Session, account: Account, address: str) -> list[Row]:
    """Show why an email address or a mobile number gets no messages."""
    return _entries_of(session, account.id, address)


def _normalized(address: str) -> NormalizedAddress:
    return normalize_address(address_kind(address), address)


@group.writes("unsubscribe")
@click.argument("address")
@list_option
def unsubscribe(transaction: Transaction, account: Account, address: str, list_: str | None) -> CommandResult:
    """Unsubscribe an email address or a mobile number. Its contacts are updated, and webhooks receive events."""
    list_id, key = _list_id(transaction, account.id, list_), services().settings.secret_key
    changed = add_unsubscribed(transaction, key, account.id, _normalized(address), list_id)
    facts = {"address": address, "list_id": shown_id(list_id), "unsubscribed": True, "contacts_changed": changed}
    return CommandResult(f"{address} is unsubscribed{_where(list_)}; contacts changed: {changed}", facts)


@group.writes("resubscribe", "installation")
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
    return bool(equals) and name.partition(":")[0] in SUPPRESSIONS.filters


@group.writes("block")
@click.argument("address")
@click.option("--reason", default="blocked by hand", show_default=True, help="Why; the suppression shows it.")
def block(transaction: Transaction, account: Account, address: str, reason: str) -> CommandResult:
    """Block an email address or a mobile number. It gets no messages from any list."""
    add_blocked(transaction, services().settings.secret_key, account.id, _normalized(address), reason)
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
    with parts.database.write() as transaction:
        account_id = find_account(transaction, account).id
        was_blocked = remove_blocked(transaction, parts.settings.secret_key, account_id, _normalized(address))
    said = f"{address} is no longer blocked" if was_blocked else f"{address} was not blocked"
    return CommandResult(said, {"address": address, "blocked": False, "was_blocked": was_blocked})
