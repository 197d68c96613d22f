"""`flask audit`: what people and keys have done (docs/audit.md#reading)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click
import orjson
from sqlalchemy import ColumnElement
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.accounts.find import all_accounts, find_account
from app.addresses import normalize_address
from app.audit.read import AUDIT_ENTRIES, entries_in_order, with_names_of_people
from app.audit.verify import NotedSeal, Verification, verify
from app.cli.base import (
    CommandResult,
    Group,
    Row,
    Unavailable,
    WrongValue,
    accounts_option,
    address_kind,
    columns,
    combine_options,
    echo,
    limit_option,
    pairs_of,
    print_json,
    print_row,
    refuse_other_key,
)
from app.cli.find_contacts import without_links
from app.clock import timestamp
from app.db.commit_order import settled_to
from app.db.copies.snapshot import snapshot
from app.db.models import AuditEntry
from app.db.outage import reason
from app.distribution import COMMAND_LINE
from app.errors import ServiceError
from app.http.context import services
from app.ids import id_in
from app.infrastructure.digests import address_digests
from app.maintenance.words import counted
from app.query.conditions import Query
from app.query.grammar import parse_collection
from app.query.reader import read_page
from app.services import Services

group = Group("audit", help="The audit log: what people and keys have done.")

TABLE_COLUMNS = ("id", "time", "account", "action", "object_id", "object_name", "actor", "source", "via")
narrowing = combine_options(
    click.argument("filters", nargs=-1, metavar="[FILTER...]"),
    accounts_option,
    click.option("--address", metavar="ADDRESS", help="Only actions on this email address or mobile number."),
    click.option("--after", type=click.IntRange(0), metavar="ID", help="Only entries after the entry with this id."),
)
"""The arguments and options that choose entries."""


def _query(filters: Sequence[str], after: int | None, address: str | None, *others: tuple[str, str]) -> Query:
    pairs = [*others, *pairs_of(filters)]
    if after is not None:
        pairs.append(("id:in", f"{after}.."))
    if address is not None:
        refuse_other_key(services())
        pairs.append(("address_digest:in", ",".join(_digests_of(address))))
    return parse_collection(pairs, AUDIT_ENTRIES.resource)


def _digests_of(address: str) -> list[str]:
    """The keyed hashes by which entries may know the address."""
    return address_digests(services().settings.secret_keys, normalize_address(address_kind(address), address))


def _scope(session: Session, account: str | None) -> list[ColumnElement[bool]]:
    """The entries of the account, which may have been deleted: then its id names it."""
    if account is None:
        return []
    try:
        account_id = find_account(session, account).id
    except ServiceError:
        named_id = id_in(account)
        if named_id is None:
            raise
        account_id = named_id
    return [AuditEntry.account_id == account_id]


@group.reads("list", "installation", columns(*TABLE_COLUMNS))
@narrowing
@limit_option
def list_(
    session: Session,
    *,
    filters: tuple[str, ...],
    after: int | None,
    address: str | None,
    account: str | None,
    limit: int,
) -> list[Row]:
    """Show entries, newest first. Example of filters: action=key.created time:in=2026-01-01.. actor:ne=root."""
    query = _query(filters, after, address, ("limit", str(limit)))
    entries = read_page(session, AUDIT_ENTRIES, query, *_scope(session, account)).items
    return _with_accounts(session, entries)


def _with_accounts(session: Session, items: Sequence[dict[str, Any]]) -> list[Row]:
    """The entries as they are shown, each with the present names of its account and of the person who acted."""
    names = {account.id: account.name for account in all_accounts(session)}
    return [
        {**without_links(item), "account": names.get(item.get("account_id", 0))}
        for item in with_names_of_people(session, items)
    ]


def _print_entry(row: Row, as_json: bool) -> None:
    if as_json:
        print_json(row)
        return
    print_row({name: value for name, value in row.items() if name not in ("changes", "counts")}, as_json=False)
    for name, count in row["counts"].items():
        echo(f"{name}: {count}")
    for change in row["changes"]:
        echo(_in_words(change))


@group.reads("show", "installation", _print_entry)
@click.argument("entry", metavar="ID", type=click.IntRange(1))
def show(session: Session, entry: int) -> Row:
    """Show an entry and what it changed."""
    query = parse_collection([("id", str(entry))], AUDIT_ENTRIES.resource)
    rows = _with_accounts(session, read_page(session, AUDIT_ENTRIES, query).items)
    if not rows:
        raise WrongValue(f"there is no entry {entry}")
    return rows[0]


def _in_words(change: Row) -> str:
    values = [f"{name} {orjson.dumps(change[name]).decode()}" for name in ("old", "new") if name in change]
    return f"changed {change['field']}{': ' if values else ''}{', '.join(values)}"


@group.command("export")
@narrowing
@click.option("--json", "_as_json", is_flag=True, help="No effect: entries are always written as JSON.")
def export(
    *, filters: tuple[str, ...], after: int | None, address: str | None, account: str | None, _as_json: bool
) -> None:
    """Write entries to standard output as JSON lines, in the order of their ids. No entry is ever added before the
    last one, so --after continues from it."""
    query = _query(filters, after, address)
    with services().database.write() as transaction:
        last = settled_to(transaction, AuditEntry)
    stdout = sys.stdout.buffer
    with services().database.read() as session:
        for page in entries_in_order(session, query, AuditEntry.id <= last, *_scope(session, account)):
            stdout.write(b"".join(_line(item) for item in page))
    stdout.flush()


class _SealParameter(click.ParamType[NotedSeal]):
    """A seal as `audit verify` prints the last one."""

    name = "NUMBER:HASH"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> NotedSeal:
        """The number and the hash of a seal."""
        number, _, hash_ = str(value).partition(":")
        if not number.isascii() or not number.isdigit() or not hash_:
            self.fail(f"must be a seal as `{COMMAND_LINE} audit verify` prints it, such as 12:9f86…", param, ctx)
        return NotedSeal(int(number), hash_)


@group.runs("verify", "installation")
@click.option(
    "--seal", "noted", type=_SealParameter(), help="A seal that you noted earlier. It must still be in the log."
)
def verify_(parts: Services, noted: NotedSeal | None) -> CommandResult:
    """Check the entries against their seals. If the log was changed, show where and exit with 1."""
    try:
        with snapshot(parts.settings.database_url) as copy:
            verification = verify(copy.connection, parts.settings, noted)
    except SQLAlchemyError as error:
        raise Unavailable(reason(error)) from None
    return CommandResult(
        "\n".join(_lines(verification)), _facts(verification), exit_code=1 if verification.breaks else 0
    )


def _lines(verification: Verification) -> Iterator[str]:
    first, others = verification.breaks[:1], verification.breaks[1:]
    if first:
        yield f"the log was changed after it was sealed, first at {first[0]}"
    else:
        yield f"the log is unchanged since it was sealed: {counted(verification.sealed, 'entry', 'entries')}"
    yield from (f"also {seal_break}" for seal_break in others)
    if verification.purged:
        moment = f", most recently at {timestamp(verification.purged_time)}" if verification.purged_time else ""
        yield f"purged by the retention: {counted(verification.purged, 'entry', 'entries')}{moment}"
    if verification.waiting:
        yield f"not sealed yet: {counted(verification.waiting, 'entry', 'entries')}"
    if verification.is_noted_purged:
        yield "the entry of the noted seal was purged, so the seal cannot be checked"
    if verification.last:
        yield f"the last seal: {verification.last}"


def _facts(verification: Verification) -> Row:
    return {
        "whole": not verification.breaks,
        **{
            "sealed": verification.sealed,
            "purged": verification.purged,
            "purged_time": verification.purged_time,
            "waiting": verification.waiting,
        },
        "last_seal": str(verification.last) if verification.last else None,
        "noted_seal_purged": verification.is_noted_purged,
        "breaks": [seal_break._asdict() for seal_break in verification.breaks],
    }


def _line(item: Row) -> bytes:
    return orjson.dumps(without_links(item), option=orjson.OPT_APPEND_NEWLINE)
