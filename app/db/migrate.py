"""Migrations of a database to the schema of the models, or back; safe to run in any number of processes at once.

On SQLite, and on a new database, all steps of one call are one transaction: a migration that fails leaves nothing
behind. On PostgreSQL each migration is one, so that none keeps the locks of another (app/db/migration_steps.py).
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Engine

from app.db import migration_steps, phases
from app.db.engine import WRITE, make_engine
from app.db.history_ranges import RANGE_NAME
from app.db.migration_steps import FOLDER, configured, current_revision, script
from app.db.models import Base
from app.db.phases import Part, Plan
from app.db.schema_state import code_in_use, in_use_after, write_state
from app.db.wait_budget import limit_waits

PARTITION = re.compile(rf"events_\d|{RANGE_NAME.pattern}")
"""Names of the tables that are parts of another one: its name comes before the last underscore."""


class MigrationError(Exception):
    """A migration cannot be made, or would leave rows with dangling foreign keys."""


def upgrade(database_url: str, revision: str = "head", part: Part = "all") -> tuple[str, ...]:
    """Migrates to a revision, by default the newest, or runs a part of what is pending (app/db/phases.py). Returns the
    revisions that are left. Concurrent calls wait, and then find nothing to do."""
    with limit_waits(math.inf), _engine(database_url) as engine:
        if engine.dialect.name == "postgresql" and _current(engine) is not None:
            try:
                return migration_steps.upgrade(engine, revision, part)
            except migration_steps.TablesInUse as error:
                raise MigrationError(str(error)) from None
    with exclusive(database_url) as connection:
        return upgrade_within(connection, revision, part)


def downgrade(database_url: str, revision: str) -> None:
    """Migrates back to a revision; `base` is an empty database."""
    with exclusive(database_url) as connection:
        downgrade_within(connection, revision)


def current(database_url: str) -> str | None:
    """The revision of the database; None when it has none."""
    with _engine(database_url) as engine:
        return _current(engine)


def newest() -> str | None:
    """The newest revision of this version."""
    return script().get_current_head()


def resolved(revision: str) -> str | None:
    """The revision that a command names, such as `-1`; None for `base`. Raises `CommandError` for an unknown one."""
    found = script().get_revisions(revision)
    return found[0].revision if found and found[0] else None


def plan_of(database_url: str) -> Plan:
    """What `upgrade` with the part `expand` would run, and what it would leave."""
    with _engine(database_url) as engine, engine.connect() as connection:
        at = current_revision(connection)
        return phases.plan(migration_steps.pending("head", at), "expand", at, code_in_use(connection, at))


def title_of(revision: str) -> str:
    """What a migration says it does."""
    return str(script().get_revision(revision).doc)


def differences(database_url: str) -> list[object]:
    """Differences between models and database, as Alembic lists them; empty when the migrations are complete."""
    with _engine(database_url) as engine, engine.connect() as connection, warnings.catch_warnings():
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


def upgrade_within(connection: Connection, revision: str, part: Part = "all") -> tuple[str, ...]:
    """As `upgrade`, in the transaction of an exclusive connection."""
    at = current_revision(connection)
    in_use = code_in_use(connection, at)
    plan = phases.plan(migration_steps.pending(revision, at), part, at, in_use)
    if plan.run:
        command.upgrade(configured(connection), plan.run[-1])
    write_state(connection, current_revision(connection), in_use_after(part, at, in_use))
    return plan.left


def downgrade_within(connection: Connection, revision: str) -> None:
    """Migrates back to a revision in the transaction of an exclusive connection."""
    in_use = code_in_use(connection, current_revision(connection))
    command.downgrade(configured(connection), revision)
    write_state(connection, current_revision(connection), in_use)


def generate(database_url: str, message: str) -> None:
    """Writes a new migration with the differences between models and database. For development."""
    newer = max((int(path.name[1:5]) for path in (FOLDER / "versions").glob("v*.py")), default=0) + 1
    with exclusive(database_url) as connection:
        command.revision(configured(connection), message, autogenerate=True, rev_id=f"{newer:04}")


def _current(engine: Engine) -> str | None:
    with engine.connect() as connection:
        return current_revision(connection)


@contextmanager
def _engine(database_url: str) -> Iterator[Engine]:
    engine = make_engine(database_url)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def exclusive(database_url: str) -> Iterator[Connection]:
    """A connection in a transaction that excludes other migrations, without a time limit: tables may be large."""
    with (
        limit_waits(math.inf),
        _engine(database_url) as engine,
        engine.connect().execution_options(**{WRITE: True}) as connection,
    ):
        _before_begin(connection)
        with connection.begin():
            if connection.dialect.name == "postgresql":
                migration_steps.exclude_others(connection)
            yield connection
            _check_references(connection)


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
