"""`flask groups`: transactional groups, the reports of sends."""

from __future__ import annotations

import click
from sqlalchemy import select

from app.accounts.find import find_account
from app.cli.base import Group as Commands
from app.cli.base import (
    Row,
    account_option,
    accounts_option,
    json_option,
    limit_option,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.db.lookup import find_by_name_or_id
from app.db.models import Group
from app.groups.read import COUNTERS
from app.http.context import services

group = Commands("groups", help="Transactional groups: what became of the messages sent in their name.")

SHOWN = ("id", "type", "name", *COUNTERS, "creation_time", "last_sent_time")


def _row(row: Group) -> Row:
    return {name: getattr(row, name) for name in SHOWN}


@group.command("list")
@limit_option
@accounts_option
@json_option
def list_(limit: int, account: str | None, as_json: bool) -> None:
    """Show the groups of an account, or of each, the newest first."""
    newest = select(Group).order_by(Group.creation_time.desc(), Group.id.desc()).limit(limit)
    with services().database.read() as session:
        rows = rows_of_accounts(
            session, account, lambda one: map(_row, session.scalars(newest.where(Group.account_id == one)))
        )
    print_rows(rows, as_json)


@group.command("show")
@click.argument("group_", metavar="GROUP")
@account_option
@json_option
def show(group_: str, account: str | None, as_json: bool) -> None:
    """Show a group, named by its name or id."""
    with services().database.read() as session:
        row = _row(find_by_name_or_id(session, Group, find_account(session, account).id, group_, "group"))
    print_row(row, as_json)
