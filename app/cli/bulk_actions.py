"""`flask sends retry` and `flask suppressions unblock` with filters, and `flask sends bulk-actions`: actions on many
messages or addresses at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import click

from app.accounts.find import find_account
from app.bulk_actions.ask import GRACE, ask, cancel, find_action
from app.bulk_actions.kinds import UNBLOCK, Kind
from app.bulk_actions.preview import VALID, LookedAt, Preview, is_valid, preview
from app.bulk_actions.read import BULK_ACTIONS, STATES, page_actions
from app.cli.base import (
    Group,
    Row,
    account_option,
    accounts_option,
    echo,
    json_option,
    limit_option,
    print_done,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.clock import now
from app.db.models import Account, BulkAction
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.query.conditions import Query
from app.query.grammar import parse_collection

group = Group("bulk-actions", help="Actions on all messages or blocked addresses that match filters.")

SHOWN = (
    *("id", "action", "query", "state", "messages", "done", "left_out", "asked_by"),
    *("creation_time", "due_time", "end_time"),
)


def pairs_of(filters: Sequence[str]) -> list[tuple[str, str]]:
    """The parameters of filters as they are typed, such as `state=failed`."""
    return [(name, value) for name, _, value in (one.partition("=") for one in filters)]


def ask_for_all(
    kind: Kind, filters: Sequence[str], *, account: str | None, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Asks for an action on all that matches the filters, after a confirmation. A dry run counts, and shows the newest
    addresses."""
    found = _preview(kind, filters, account)
    if dry_run:
        _print_preview(found, as_json)
        return
    if not (yes or found.does_nothing or found.is_too_large):
        found = _confirmed(found, partial(_preview, kind, filters, account))
    with services().database.write() as transaction:
        action = ask(transaction, transaction.get_one(Account, found.account_id), found)
        row = _row(action)
    if as_json:
        print_row(row, as_json)
    else:
        back = f"`{COMMAND_LINE} sends bulk-actions cancel {row['id']}` keeps that back"
        echo(f"{found.number_done} will be {kind.past}, from {GRACE.total_seconds():.0f} seconds from now on; {back}")


def _preview(kind: Kind, filters: Sequence[str], account: str | None) -> Preview:
    with services().database.read() as session:
        return preview(session, kind, find_account(session, account), pairs_of(filters))


def _confirmed(found: Preview, again: Callable[[], Preview]) -> Preview:
    """What was confirmed. A question that has stood for too long is asked again if its numbers have changed."""
    while True:
        for line in left_out_lines(found.looked_at, found.not_looked_at):
            echo(line, err=True)
        click.confirm(f"{found.kind.name.capitalize()} {found.number_done} of {found.account}?", abort=True, err=True)
        shown = found.numbers
        if now() - shown.time > VALID:
            found = again()
        if is_valid(shown, found):
            return found
        echo("What matches has changed since the question was asked.", err=True)


def left_out_lines(looked_at: LookedAt, not_looked_at: int) -> Iterator[str]:
    """Why some would be left out, for people, and how many may be beside them."""
    for number, reason in looked_at.reasons:
        yield f"{number:,} left out: {reason}"
    if not_looked_at:
        yield f"{not_looked_at:,} not looked at: as many as these may be left out, too"


def _print_preview(found: Preview, as_json: bool) -> None:
    names = [column.key for column in found.kind.shown if column.key != "id"]
    newest = [{name: getattr(row, name) for name in names} for row in found.rows if found.kind is UNBLOCK]
    facts: dict[str, Any] = {found.kind.noun[1]: found.messages, "time": found.time, "done": found.done}
    facts |= {"left_out": dict(found.looked_at.left_out), "not_looked_at": found.not_looked_at}
    if newest:
        facts["newest"] = newest
    said = f"{found.number_done} of {found.account} would be {found.kind.past}"
    lines = left_out_lines(found.looked_at, found.not_looked_at)
    print_done("\n".join([said, *lines]), facts, as_json)
    if newest and not as_json:
        echo("the newest of them:")
        print_rows(newest, as_json)


def _row(action: BulkAction) -> Row:
    return {name: getattr(action, name) for name in SHOWN}


def _with_words(row: Row, as_json: bool) -> Row:
    """What was left out as text, for people."""
    if as_json:
        return row
    left_out = ", ".join(f"{number} {reason}" for reason, number in sorted(row["left_out"].items()))
    return {**row, "left_out": left_out or None}


@group.command("list")
@click.option("--state", type=click.Choice(STATES), help="Only actions in this state.")
@limit_option
@accounts_option
@json_option
def list_(*, state: str | None, limit: int, account: str | None, as_json: bool) -> None:
    """Show the bulk actions of an account, or of each account, the newest first."""
    wanted = [] if state is None else [("state", state)]
    conditions = parse_collection(wanted, BULK_ACTIONS.resource).conditions
    with services().database.read() as session:

        def of_account(account_id: int) -> list[Row]:
            page = page_actions(session, account_id, Query(limit=limit, conditions=conditions))
            return [_with_words({name: item[name] for name in SHOWN}, as_json) for item in page.items]

        rows = rows_of_accounts(session, account, of_account)
    print_rows(rows, as_json)


@group.command("show")
@click.argument("action_id", metavar="ID", type=int)
@account_option
@json_option
def show(action_id: int, account: str | None, as_json: bool) -> None:
    """Show a bulk action, with how far it has come and what it has left out."""
    with services().database.read() as session:
        row = _row(find_action(session, find_account(session, account).id, action_id))
    print_row(_with_words(row, as_json), as_json)


@group.command("cancel")
@click.argument("action_id", metavar="ID", type=int)
@account_option
@json_option
def cancel_(action_id: int, account: str | None, as_json: bool) -> None:
    """Cancel a bulk action: one that waits does nothing, and one that runs leaves the rest as it is."""
    with services().database.write() as transaction:
        row = _row(cancel(transaction, find_account(transaction, account).id, action_id))
    print_row(_with_words(row, as_json), as_json)
