"""Migrations: bring a database to the shape of the models, or back; any number of processes may try at once.

All steps of one call are one transaction on both databases: a migration that fails leaves nothing behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Index, text

from app.db.engine import WRITE, make_engine
from app.db.models import Base
from app.db.wait_budget import limit_waits

FOLDER = Path(__file__).parent / "migrations"
ADVISORY_LOCK = 7_166_350_117
"""Any number that nobody else takes in this database."""


class MigrationError(Exception):
    """A migration would leave rows that refer to nothing."""


def upgrade(database_url: str, revision: str = "head") -> None:
    """Brings the database to a revision, by default the newest. Others who try meanwhile wait and find it done."""
    with _exclusive(database_url) as connection:
        command.upgrade(_config(connection), revision)


def downgrade(database_url: str, revision: str) -> None:
    """Takes the database back to a revision; `base` is an empty database."""
    with _exclusive(database_url) as connection:
        command.downgrade(_config(connection), revision)


def current(database_url: str) -> str | None:
    """The revision that the database has; None when it has none."""
    with _shared(database_url) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest() -> str | None:
    """The revision that the code needs."""
    return ScriptDirectory(str(FOLDER)).get_current_head()


def differences(database_url: str) -> list[object]:
    """What the models say and the database has not, in alembic's words; empty when a revision exists for everything."""
    with _shared(database_url) as connection:
        options = {"include_object": included_on(connection.dialect.name)}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata))


def included_on(dialect: str) -> Callable[..., bool]:
    """Alembic's `include_object`: leaves out the GIN indexes where there are none, which it cannot know by itself."""

    def included(item: object, *_rest: object) -> bool:
        is_gin = isinstance(item, Index) and item.dialect_options["postgresql"]["using"] == "gin"
        return dialect == "postgresql" or not is_gin

    return included


def generate(database_url: str, message: str) -> None:
    """Writes a new migration with what the models have and the database has not. For development."""
    newer = max((int(path.name[1:5]) for path in (FOLDER / "versions").glob("v*.py")), default=0) + 1
    with _exclusive(database_url) as connection:
        command.revision(_config(connection), message, autogenerate=True, rev_id=f"{newer:04}")


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("file_template", "v%%(rev)s_%%(slug)s")
    config.attributes["connection"] = connection
    return config


@contextmanager
def _shared(database_url: str) -> Iterator[Connection]:
    engine = make_engine(database_url)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def _exclusive(database_url: str) -> Iterator[Connection]:
    """A connection in a transaction that keeps every other migration out. It may take any time: tables may be large."""
    engine = make_engine(database_url)
    try:
        with limit_waits(math.inf), engine.connect().execution_options(**{WRITE: True}) as connection:
            _before_begin(connection)
            with connection.begin():
                if connection.dialect.name == "postgresql":
                    connection.execute(text("SET LOCAL statement_timeout = 0"))
                    connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
                yield connection
                _check_references(connection)
    finally:
        engine.dispose()


def _before_begin(connection: Connection) -> None:
    """Foreign keys off: SQLite alters a table by making it anew, and dropping the old one would empty its children."""
    driver = connection.connection.dbapi_connection
    if connection.dialect.name == "sqlite" and driver is not None:
        driver.cursor().execute("PRAGMA foreign_keys=OFF")


def _check_references(connection: Connection) -> None:
    """Makes up for the foreign keys that were off."""
    if connection.dialect.name == "sqlite":
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
        if broken:
            raise MigrationError(f"{len(broken)} rows would refer to nothing, the first in table {broken[0][0]}")
