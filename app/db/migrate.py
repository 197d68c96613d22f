"""Migrations of a database to the schema of the models, or back; safe to run in any number of processes at once.

All steps of one call are one transaction on both databases: a migration that fails leaves nothing behind.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from app.db.engine import WRITE, make_engine
from app.db.history_ranges import RANGE_NAME
from app.db.models import Base
from app.db.wait_budget import limit_waits

FOLDER = Path(__file__).parent / "migrations"
ADVISORY_LOCK = 7_166_350_117
"""An arbitrary key that nothing else uses in this database."""
PARTITION = re.compile(rf"events_\d|{RANGE_NAME.pattern}")
"""Names of the tables that are parts of another one: its name comes before the last underscore."""


class MigrationError(Exception):
    """A migration would leave rows with dangling foreign keys."""


def upgrade(database_url: str, revision: str = "head") -> None:
    """Migrates to a revision, by default the newest. Concurrent calls wait, and then find nothing to do."""
    with exclusive(database_url) as connection:
        command.upgrade(_config(connection), revision)


def downgrade(database_url: str, revision: str) -> None:
    """Migrates back to a revision; `base` is an empty database."""
    with exclusive(database_url) as connection:
        command.downgrade(_config(connection), revision)


def current(database_url: str) -> str | None:
    """The revision of the database; None when it has none."""
    with _shared(database_url) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest() -> str | None:
    """The revision that this version needs."""
    return ScriptDirectory(str(FOLDER)).get_current_head()


def differences(database_url: str) -> list[object]:
    """Differences between models and database, as Alembic lists them; empty when the migrations are complete."""
    with _shared(database_url) as connection, warnings.catch_warnings():
        # Neither library reads such an index of SQLite; a test compares it (tests/guards/test_migrations.py).
        warnings.filterwarnings("ignore", ".*expression-based index")
        options = {"include_object": included_on(connection.dialect.name)}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata))


def included_on(dialect: str) -> Callable[..., bool]:
    """Alembic's `include_object`: leaves out what only the other database has (`ddl_if`), and partitions, which belong
    to their parent table."""

    def included(item: Any, name: str | None, kind: str, reflected: bool, _other: object) -> bool:
        only_on = getattr(item, "_ddl_if", None)
        is_partition = kind == "table" and reflected and PARTITION.fullmatch(name or "") is not None
        return not is_partition and (only_on is None or only_on.dialect == dialect)

    return included


def upgrade_within(connection: Connection, revision: str) -> None:
    """Migrates to a revision in the transaction of an exclusive connection."""
    command.upgrade(_config(connection), revision)


def downgrade_within(connection: Connection, revision: str) -> None:
    """Migrates back to a revision in the transaction of an exclusive connection."""
    command.downgrade(_config(connection), revision)


def generate(database_url: str, message: str) -> None:
    """Writes a new migration with the differences between models and database. For development."""
    newer = max((int(path.name[1:5]) for path in (FOLDER / "versions").glob("v*.py")), default=0) + 1
    with exclusive(database_url) as connection:
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
def exclusive(database_url: str) -> Iterator[Connection]:
    """A connection in a transaction that excludes other migrations, without a time limit: tables may be large."""
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
    """Turns foreign keys off: SQLite alters a table by recreating it, and dropping the old one would delete from its
    children."""
    driver = connection.connection.dbapi_connection
    if connection.dialect.name == "sqlite" and driver is not None:
        driver.cursor().execute("PRAGMA foreign_keys=OFF")


def _check_references(connection: Connection) -> None:
    """Checks the foreign keys, which were off."""
    if connection.dialect.name == "sqlite":
        dangling = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
        if dangling:
            raise MigrationError(f"{len(dangling)} rows would refer to nothing, the first in table {dangling[0][0]}")
