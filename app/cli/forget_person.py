"""`flask contacts forget`: removes a person everywhere (docs/privacy.md#forgetting)."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import click
from flask.cli import with_appcontext

from app.accounts.find import all_accounts, find_account
from app.cli.base import (
    Command,
    Failure,
    WrongValue,
    account_option,
    address_kind,
    json_option,
    need_installation_key,
    print_done,
    print_part_of_json,
    print_rows,
)
from app.cli.progress import progress
from app.db.remains import remove_remains
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.privacy.export import document, export_person
from app.privacy.forget import ForgetReport, forget, held
from app.privacy.person import with_test_account
from app.privacy.places import counted

all_accounts_option = click.option("--all-accounts", is_flag=True, help="In every account of the installation.")


@click.command("forget", cls=Command)
@click.argument("address")
@click.option("--dry-run", is_flag=True, help="Only count what is held.")
@click.option(
    "--wait",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for messages that are being sent.",
)
@click.option(
    "--compact/--no-compact",
    default=False,
    help="Rewrite the SQLite file at the end. By default, the maintenance cleans it later.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@all_accounts_option
@account_option
@json_option
@with_appcontext
def forget_(
    address: str,
    *,
    dry_run: bool,
    wait: float,
    compact: bool,
    yes: bool,
    all_accounts: bool,
    account: str | None,
    as_json: bool,
) -> None:
    """Remove everything that is held about a person, found by email address or mobile number. Waiting messages are
    not sent. The command waits up to --wait seconds for messages that are being sent. If the address is
    unsubscribed or blocked, a keyed hash of it is kept."""
    kind, accounts = address_kind(address), accounts_of(account, all_accounts)
    if dry_run:
        _print_held(held(services(), accounts, kind, address), as_json)
        return
    need_installation_key(services())
    if not yes:
        click.confirm(f"Remove everything that is held about {address}? This cannot be undone.", abort=True, err=True)
    with progress("forgetting", None) as advance:
        forgotten = forget(services(), accounts, kind, address, wait=wait, everywhere=all_accounts, advance=advance)
    compacted = remove_remains(services().database) if compact else None
    _print(forgotten, compacted, _further(forgotten, account, all_accounts), as_json)
    if not forgotten.is_complete:
        raise click.exceptions.Exit(1)


def accounts_of(account: str | None, every: bool) -> list[int]:
    """The ids of the accounts that are meant: the one that is named comes before its test account."""
    if every and account is not None:
        raise WrongValue("use either --all-accounts or --account")
    with services().database.read() as session:
        if every:
            return sorted(account_row.id for account_row in all_accounts(session))
        return with_test_account(session, find_account(session, account).id)


def _print_held(counts: Mapping[str, int], as_json: bool) -> None:
    print_done(f"held: {counted(counts)}" if counts else "nothing is held", {"held": dict(counts)}, as_json)


def _print(forgotten: ForgetReport, compacted: bool | None, further: Sequence[str], as_json: bool) -> None:
    facts = {
        "removed": dict(forgotten.removed),
        "kept": dict(forgotten.kept),
        "other_addresses": sorted(forgotten.other_addresses),
        "in_flight": forgotten.in_flight,
        "journals": forgotten.journals,
        "complete": forgotten.is_complete,
        "compacted": compacted,
    }
    print_done("\n".join([*_result_lines(forgotten, compacted), *further]), facts, as_json)


def _result_lines(forgotten: ForgetReport, compacted: bool | None) -> Iterator[str]:
    yield f"removed: {counted(forgotten.removed)}" if forgotten.removed else "nothing was held"
    if forgotten.kept:
        yield f"kept as keyed hashes: {counted(forgotten.kept)}"
    if forgotten.in_flight:
        yield f"still being sent: {', '.join(forgotten.in_flight)}; repeat the command"
    if forgotten.journals:
        yield f"not yet written to the database: {', '.join(forgotten.journals)}; repeat the command"
    if compacted is False:
        cleaning = f"the maintenance cleans it later, or run `{COMMAND_LINE} db compact` at a quiet time"
        yield f"the SQLite file was not rewritten, because other processes kept using it: {cleaning}"


def _further(forgotten: ForgetReport, account: str | None, every: bool) -> list[str]:
    """The commands for the other addresses of the contacts, which others may share."""
    scope = ["--all-accounts"] if every else [] if account is None else ["--account", account]
    commands = (
        shlex.join(["contacts", "forget", other_address, *scope]) for other_address in sorted(forgotten.other_addresses)
    )
    return [
        f"the contacts also had another address; to forget it, run: {COMMAND_LINE} {command}" for command in commands
    ]


# `flask contacts export-person`: all that is held about a person (docs/privacy.md#handing-out).


@click.command("export-person", cls=Command)
@click.argument("address")
@all_accounts_option
@account_option
@json_option
@with_appcontext
def export_(address: str, *, all_accounts: bool, account: str | None, as_json: bool) -> None:
    """Export everything that is held about a person, found by email address or mobile number, as JSON. Without
    --json, show only the counts. Exit with 1 if nothing is held."""
    need_installation_key(services())
    kind, accounts = address_kind(address), accounts_of(account, all_accounts)
    sections = export_person(services(), accounts, kind, address, everywhere=all_accounts)
    if sections is None:
        raise Failure(f"nothing is held about {address}")
    if as_json:
        for text in document(kind, address, sections):
            print_part_of_json(text)
        return
    counts: Counter[tuple[str, str]] = Counter()
    for name, place, rows in sections:
        counts[name, place] += len(rows)
    print_rows([{"account": name, "place": place, "held": count} for (name, place), count in counts.items()], False)
