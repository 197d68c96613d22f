"""`flask db`: migrations of the database. `make run` upgrades it automatically."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import click
from alembic.util import CommandError

from app.cli.base import (
    Group,
    Row,
    Unavailable,
    WrongValue,
    echo,
    json_option,
    print_done,
    print_row,
    print_rows,
)
from app.db import migrate
from app.db.phases import Part
from app.db.remains import remove_remains
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.maintenance.migrations import downgrade_database, upgrade_database

group = Group("db", help="Migrate and compact the database.")

WAITING: dict[Part, str] = {
    "expand": f"left until all processes run this release: {{}}; then `{COMMAND_LINE} db upgrade --contract`",
    "contract": "left, because a release in between is needed before them: {}",
}


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except CommandError as error:
        raise WrongValue(str(error)) from None
    except migrate.MigrationError as error:
        raise Unavailable(str(error)) from None


@group.command()
@click.argument("revision", default="head")
@click.option(
    "--expand",
    "part",
    flag_value="expand",
    help="Only what processes of the release before go on working with.",
)
@click.option("--contract", "part", flag_value="contract", help="The rest, once all processes run this release.")
@json_option
def upgrade(revision: str, part: Part | None, as_json: bool) -> None:
    """Upgrade the database to REVISION, by default the newest. Without an option, all processes must be stopped."""
    with _one_line():
        left = upgrade_database(services(), revision, part or "all")
    _print_revision(as_json)
    if part and left and not as_json:
        echo(WAITING[part].format(", ".join(left)))


@group.command()
@json_option
def plan(as_json: bool) -> None:
    """Show the pending migrations, and which of them can run while processes of the release before do."""
    with _one_line():
        found = migrate.plan_of(_url())
    when = {**dict.fromkeys(found.run, "--expand"), **dict.fromkeys(found.left, "--contract")}
    rows = [{"revision": one, "run_with": when[one], "does": migrate.title_of(one)} for one in when]
    print_rows(rows, as_json)


@group.command()
@click.argument("revision")
@click.confirmation_option("--yes", prompt="This drops tables or columns with all their data. Continue?")
@json_option
def downgrade(revision: str, as_json: bool) -> None:
    """Downgrade the database to REVISION; `base` empties it."""
    with _one_line():
        downgrade_database(services(), revision)
    _print_revision(as_json)


@group.command()
@json_option
def current(as_json: bool) -> None:
    """Show the database's revision and the newest one."""
    print_row(_revisions(), as_json)


@group.command()
@json_option
def compact(as_json: bool) -> None:
    """Write SQLite's file anew, without what was deleted. Nobody else can write meanwhile. On PostgreSQL, take anew the
    samples by which it plans."""
    if not remove_remains(services().database):
        raise Unavailable("others have used the file all the time, and nothing was done: stop them, or try again")
    print_done("the file was written anew", {"compacted": True}, as_json)


@group.command()
@click.argument("message")
def generate(message: str) -> None:
    """Draft a migration from the differences between models and migrations (for development)."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = f"sqlite:///{folder}/scratch.sqlite3"
        migrate.upgrade(scratch)
        migrate.generate(scratch, message)


def _revisions() -> Row:
    return {"current": migrate.current(_url()), "newest": migrate.newest()}


def _print_revision(as_json: bool) -> None:
    revisions = _revisions()
    print_done(f"the database is at revision {revisions['current'] or 'base'}", revisions, as_json)


def _url() -> str:
    return services().settings.database_url
