"""`flask sends retry` and `flask suppressions unblock` with filters, and `flask sends bulk-actions`: actions on many
messages or addresses at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import click
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.bulk_actions.ask import UNDO_PERIOD, ask, cancel, find_action
from app.bulk_actions.kinds import UNBLOCK, Kind
from app.bulk_actions.preview import VALID_FOR, Inspection, Preview, is_valid, preview
from app.bulk_actions.read import BULK_ACTIONS, STATES, page_actions
from app.cli.base import (
    CommandResult,
    Group,
    NamedItem,
    Row,
    echo,
    limit_option,
    pairs_of,
    print_done,
    print_result,
    print_row,
    print_rows,
)
from app.clock import now
from app.db.database import Transaction
from app.db.models import Account, BulkAction
from app.distribution import COMMAND_LINE
from app.query.conditions import Query
from app.query.grammar import parse_collection
from app.services import Services

group = Group("bulk-actions", help="Bulk actions: they affect all messages or blocked addresses that match filters.")

ROW_COLUMNS = (
    *("id", "action", "query", "state", "messages", "done", "left_out", "asked_by"),
    *("creation_time", "due_time", "end_time"),
)


def ask_for_all(
    parts: Services, kind: Kind, filters: Sequence[str], *, account: str | None, dry_run: bool, yes: bool
) -> CommandResult | Preview:
    """Asks for an action on all that matches the filters, after a confirmation. A dry run only counts. `print_asked`
    prints the result."""
    previewed = _preview(parts, kind, filters, account)
    if dry_run:
        return previewed
    if not (yes or previewed.does_nothing or previewed.is_too_large):
        previewed = _confirmed(previewed, partial(_preview, parts, kind, filters, account))
    with parts.database.write() as transaction:
        row = _row(ask(transaction, transaction.get_one(Account, previewed.account_id), previewed))
    cancelling = f"`{COMMAND_LINE} sends bulk-actions cancel {row['id']}` cancels this"
    start = f"starting in {UNDO_PERIOD.total_seconds():.0f} seconds"
    return CommandResult(f"{previewed.number_done} will be {kind.past}, {start}; {cancelling}", row)


def _preview(parts: Services, kind: Kind, filters: Sequence[str], account: str | None) -> Preview:
    with parts.database.read() as session:
        return preview(session, kind, find_account(session, account), pairs_of(filters))


def _confirmed(previewed: Preview, again: Callable[[], Preview]) -> Preview:
    """What was confirmed. A question that has stood for too long is asked again if its numbers have changed."""
    while True:
        for line in left_out_lines(previewed.looked_at, previewed.not_looked_at):
            echo(line, err=True)
        click.confirm(
            f"{previewed.kind.name.capitalize()} {previewed.number_done} of {previewed.account}?", abort=True, err=True
        )
        asked_numbers = previewed.numbers
        if now() - asked_numbers.time > VALID_FOR:
            previewed = again()
        if is_valid(asked_numbers, previewed):
            return previewed
        echo("The numbers have changed since the question was asked. Here are the new ones:", err=True)


def left_out_lines(looked_at: Inspection, not_looked_at: int) -> Iterator[str]:
    """Why some would be left out, for people, and how many may be beside them."""
    for number, reason in looked_at.reasons:
        yield f"{number:,} left out: {reason}"
    if not_looked_at:
        yield f"{not_looked_at:,} not checked: some of them may be left out, too"


def print_asked(result: Any, as_json: bool) -> None:
    """Prints what a command has asked for, or would; a dry run shows the newest addresses."""
    if isinstance(result, Preview):
        _print_preview(result, as_json)
    else:
        print_result(result, as_json)


def _print_preview(previewed: Preview, as_json: bool) -> None:
    names = [column.key for column in previewed.kind.preview_columns if column.key != "id"]
    newest = [{name: getattr(row, name) for name in names} for row in previewed.rows if previewed.kind is UNBLOCK]
    facts: dict[str, Any] = {previewed.kind.noun[1]: previewed.messages, "time": previewed.time, "done": previewed.done}
    facts |= {"left_out": dict(previewed.looked_at.left_out), "not_looked_at": previewed.not_looked_at}
    if newest:
        facts["newest"] = newest
    said = f"{previewed.number_done} of {previewed.account} would be {previewed.kind.past}"
    lines = left_out_lines(previewed.looked_at, previewed.not_looked_at)
    print_done("\n".join([said, *lines]), facts, as_json)
    if newest and not as_json:
        echo("newest matches:")
        print_rows(newest, as_json)


def _row(action: BulkAction) -> Row:
    return {name: getattr(action, name) for name in ROW_COLUMNS}


def _with_words(row: Row) -> Row:
    """What was left out as text, for people."""
    left_out = ", ".join(f"{number} {reason}" for reason, number in sorted(row["left_out"].items()))
    return {**row, "left_out": left_out or None}


def _print_action(row: Row, as_json: bool) -> None:
    print_row(row if as_json else _with_words(row), as_json)


def _print_actions(rows: list[Row], as_json: bool) -> None:
    print_rows(rows if as_json else list(map(_with_words, rows)), as_json)


ACTION = NamedItem(click.argument("named", metavar="ID", type=int), find_action)


@group.reads("list", "all accounts", _print_actions)
@click.option("--state", type=click.Choice(STATES), help="Only actions in this state.")
@limit_option
def list_(session: Session, account: Account, state: str | None, limit: int) -> list[Row]:
    """Show the bulk actions of one account or of all accounts, newest first."""
    state_filter = [] if state is None else [("state", state)]
    query = Query(limit=limit, conditions=parse_collection(state_filter, BULK_ACTIONS.resource).conditions)
    return [{name: item[name] for name in ROW_COLUMNS} for item in page_actions(session, account.id, query).items]


@group.reads("show", ACTION, _print_action)
def show(_session: Session, action: BulkAction) -> Row:
    """Show a bulk action, its progress and what it left out."""
    return _row(action)


@group.writes("cancel", ACTION, _print_action)
def cancel_(transaction: Transaction, action: BulkAction) -> Row:
    """Cancel a bulk action. If it has already started, the rest stays unchanged."""
    return _row(cancel(transaction, action.account_id, action.id))
