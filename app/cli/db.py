"""`flask db`: migrations of the database. `make run` upgrades it automatically."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import click
from alembic.util import CommandError

from app.cli.base import Group, Row, Unavailable, WrongValue, json_option, print_done, print_row
from app.db import migrate
from app.http.context import services

group = Group("db", help="Migrate the database.")


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
@json_option
def upgrade(revision: str, as_json: bool) -> None:
    """Upgrade the database to REVISION, by default the newest."""
    with _one_line():
        migrate.upgrade(_url(), revision)
    _print_revision(as_json)


@group.command()
@click.argument("revision")
@click.confirmation_option("--yes", prompt="This drops tables or columns with all their data. Continue?")
@json_option
def downgrade(revision: str, as_json: bool) -> None:
    """Downgrade the database to REVISION; `base` empties it."""
    with _one_line():
        migrate.downgrade(_url(), revision)
    _print_revision(as_json)


@group.command()
@json_option
def current(as_json: bool) -> None:
    """Show the database's revision and the newest one."""
    print_row(_revisions(), as_json)


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
