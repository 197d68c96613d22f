"""`flask db`: migrations of the database. `make run` upgrades it automatically."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import click
from alembic.util import CommandError

from app.cli.base import CommandResult, Group, Row, Unavailable, WrongValue
from app.db import migrate
from app.db.phases import Part
from app.db.remains import remove_remains
from app.distribution import COMMAND_LINE
from app.maintenance.migrations import downgrade_database, upgrade_database
from app.services import Services

group = Group("db", help="Migrate and compact the database.")

REMAINING_NOTES: dict[Part, str] = {
    "expand": f"not applied yet: {{}}. When all processes run this release, run `{COMMAND_LINE} db upgrade --contract`",
    "contract": "not applied: {}. Install an intermediate release first",
}


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except CommandError as error:
        raise WrongValue(str(error).replace("Can't locate revision identified by", "there is no revision")) from None
    except migrate.MigrationError as error:
        raise Unavailable(str(error)) from None


@group.runs("upgrade", "installation")
@click.argument("revision", default="head")
@click.option(
    "--expand",
    "part",
    flag_value="expand",
    help="Run only the migrations that processes of the previous release can work with.",
)
@click.option(
    "--contract",
    "part",
    flag_value="contract",
    help="Run the others. All processes must run this release.",
)
def upgrade(parts: Services, revision: str, part: Part | None) -> CommandResult:
    """Upgrade the database to REVISION (default: the newest). Without an option, all processes must be stopped."""
    with _one_line():
        left = upgrade_database(parts, revision, part or "all")
    return _migration_result(parts, REMAINING_NOTES[part].format(", ".join(left)) if part and left else "")


@group.runs("plan", "installation")
def plan(parts: Services) -> list[Row]:
    """Show the pending migrations, and which of them can run while processes of the previous release do."""
    with _one_line():
        migration_plan = migrate.plan_of(parts.settings.database_url)
    when = {**dict.fromkeys(migration_plan.run, "--expand"), **dict.fromkeys(migration_plan.left, "--contract")}
    return [{"revision": revision, "run_with": when[revision], "does": migrate.title_of(revision)} for revision in when]


@group.runs("downgrade", "installation")
@click.argument("revision")
@click.confirmation_option(
    "--yes", prompt="This drops tables or columns with all their data. Continue?", help="Do not ask."
)
def downgrade(parts: Services, revision: str) -> CommandResult:
    """Downgrade the database to REVISION, which drops the data that newer revisions added; `base` empties it."""
    with _one_line():
        downgrade_database(parts, revision)
    return _migration_result(parts)


@group.runs("current", "installation")
def current(parts: Services) -> Row:
    """Show the revision of the database and the newest revision."""
    return {"current": migrate.current(parts.settings.database_url), "newest": migrate.newest()}


@group.runs("compact", "installation")
def compact(parts: Services) -> CommandResult:
    """Rewrite SQLite's file without deleted data. Other processes cannot write meanwhile. On PostgreSQL, update the
    statistics by which it plans."""
    if not remove_remains(parts.database):
        raise Unavailable("other processes kept using the file, so nothing was done: stop them, or try again")
    return CommandResult("the file was rewritten", {"compacted": True})


@group.command()
@click.argument("message")
def generate(message: str) -> None:
    """Draft a migration from the differences between models and migrations (for development)."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = f"sqlite:///{folder}/scratch.sqlite3"
        migrate.upgrade(scratch)
        migrate.generate(scratch, message)


def _migration_result(parts: Services, *further: str) -> CommandResult:
    revisions = current(parts)
    lines = [f"the database is at revision {revisions['current'] or 'base'}", *filter(None, further)]
    return CommandResult("\n".join(lines), revisions)
