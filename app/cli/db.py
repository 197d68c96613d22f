"""`flask --app wsgi db`: the shape of the database. `make run` does what is needed by itself."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import click
from alembic.util import CommandError

from app.cli.base import Group, OutOfOrder, WrongValue, json_option, print_row
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
        raise OutOfOrder(str(error)) from None


@group.command()
@click.argument("revision", default="head")
def upgrade(revision: str) -> None:
    """Bring the database to REVISION, by default the newest."""
    with _one_line():
        migrate.upgrade(_url(), revision)
    click.echo(f"the database is at revision {migrate.current(_url()) or 'base'}")


@group.command()
@click.argument("revision")
@click.confirmation_option("--yes", prompt="This drops tables or columns with all they hold. Go on?")
def downgrade(revision: str) -> None:
    """Take the database back to REVISION; `base` empties it."""
    with _one_line():
        migrate.downgrade(_url(), revision)
    click.echo(f"the database is at revision {migrate.current(_url()) or 'base'}")


@group.command()
@json_option
def current(as_json: bool) -> None:
    """Show the database's revision and the newest one."""
    print_row({"current": migrate.current(_url()), "newest": migrate.newest()}, as_json)


@group.command()
@click.argument("message")
def generate(message: str) -> None:
    """Write a migration with what the models have and the migrations have not (for development)."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = f"sqlite:///{folder}/scratch.sqlite3"
        migrate.upgrade(scratch)
        migrate.generate(scratch, message)


def _url() -> str:
    return services().settings.database_url
