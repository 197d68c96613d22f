"""Migrations: running them, step by step where that is needed, and writing down which code fits the schema."""

from __future__ import annotations

import logging
import math
import random
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, MetaData, delete, insert, inspect, select, text
from sqlalchemy.exc import DBAPIError

from app.db import phases
from app.db.bounded_connection import limit_waits
from app.db.engine import WRITE_OPTION, temporary_engine
from app.db.history_ranges import PARTITION
from app.db.models import Base, SchemaState, table_of
from app.db.phases import BASELINE, LAST_STEP, Migration, Part, Plan, newest_revision, oldest_code
from app.db.planner_statistics import write_planner_statistics
from app.db.server import UnsuitableServer, check_server

logger = logging.getLogger(__name__)


STATE_TABLE = table_of(SchemaState)


def code_in_use(connection: Connection, at: str | None) -> str:
    """The oldest code that processes may still run. A database that does not say so yet was migrated whole, by the
    release that it fits."""
    if inspect(connection).has_table(STATE_TABLE.name):
        said = connection.execute(select(STATE_TABLE.c.code_in_use)).scalar()
        if said is not None:
            return str(said)
    return at or newest_revision()


def write_state(connection: Connection, revision: str | None, in_use: str) -> None:
    """After a migration to that revision, in its transaction. Code from before the baseline has written it for
    `LAST_STEP`."""
    if revision in (None, LAST_STEP) or not inspect(connection).has_table(STATE_TABLE.name):
        return
    connection.execute(delete(STATE_TABLE))
    connection.execute(insert(STATE_TABLE).values(id=1, oldest_code=oldest_code(revision), code_in_use=in_use))


def in_use_after(part: Part, at: str | None, before: str) -> str:
    """The code in use once that part has run from the revision `at`: an upgrade of everything is for a service that
    stands still, and a contracting one for processes that were replaced since the schema was expanded to `at`."""
    if part == "expand" and at is not None:
        return before
    return newest_revision() if part == "all" or at is None else max(at, before)


FOLDER = Path(__file__).parent / "migrations"
ADVISORY_LOCK = 7_166_350_117
"""An arbitrary key that nothing else uses in this database."""
LOCK_TIMEOUT = "1s"
"""How long a lock is waited for: whoever wants the table meanwhile waits behind the migration."""
PATIENCE_SECONDS = 600.0
"""Seconds after which the migration is given up."""
PAUSE = (0.5, 1.5)
LOCK_SQLSTATES = {"55P03", "40P01"}
"""SQLSTATEs of a lock that was not available in time, and of a deadlock."""


STEP_REVISION = re.compile("00[0-9]{2}")
"""Revisions from before the baseline."""
COMMIT_OF_LAST_STEP = "138f3113"
"""The last code with those migrations."""


class TablesInUse(Exception):
    """Others have used the tables all the time that the locks were tried."""


class MigrationError(Exception):
    """A migration cannot be made, or would leave rows with dangling foreign keys; the text is one line for the
    operator."""


def script() -> ScriptDirectory:
    """The migrations."""
    return _read_migrations(FOLDER)


@cache
def _read_migrations(folder: Path) -> ScriptDirectory:
    """Read once: they are as large as the schema."""
    return ScriptDirectory(str(folder))


def configured(connection: Connection) -> Config:
    """Alembic's configuration, with the connection that env.py uses."""
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("file_template", "v%%(rev)s_%%(slug)s")
    config.attributes["connection"] = connection
    return config


def current_revision(connection: Connection) -> str | None:
    """The revision of the database; None when it has none."""
    return MigrationContext.configure(connection).get_current_revision()


def pending(revision: str, at: str | None) -> tuple[Migration, ...]:
    """The migrations that lead there, the oldest first. Raises `CommandError` for a revision that does not exist, and
    `MigrationError` for a database that is older than the baseline."""
    begin = "base" if at is None or in_baseline(at) != at else at
    return phases.pending([str(step.revision.revision) for step in script()._upgrade_revs(revision, begin)])


def in_baseline(revision: str) -> str:
    """The revision of the same schema in this version: that of the baseline for the last of the steps before it.
    Raises `MigrationError` for an earlier one."""
    if revision == LAST_STEP:
        return BASELINE
    if STEP_REVISION.fullmatch(revision):
        raise MigrationError(
            f"revision {revision} is from before the first release: bring it to revision {LAST_STEP} by commit "
            f"{COMMIT_OF_LAST_STEP}, which this version takes over"
        )
    return revision


def take_over(connection: Connection) -> None:
    """Marks a database that the steps before the baseline have made as one of the baseline; nothing else changes.
    Raises `MigrationError` for an earlier one, and for one whose schema is not that of the baseline."""
    at = current_revision(connection)
    if at is None or in_baseline(at) == at:
        return
    if different := _lacking(connection, script().get_revision(BASELINE).module.METADATA):
        raise MigrationError(f"revision {at} is not as its migrations make it, and nothing was done: {different[0]}")
    connection.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": BASELINE})


def exclude_others(connection: Connection) -> None:
    """Waits, in a transaction, until no other process migrates, and removes the limits of time."""
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
    # The last statement must be one without a snapshot, which PostgreSQL keeps until the next one: an index that is
    # built while others write waits for everybody who has one, and this transaction waits for the index.
    connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))


def upgrade_in_steps(engine: Engine, revision: str, part: Part) -> tuple[str, ...]:
    """Runs that part of the revisions that lead to `revision`; returns those that are left."""
    with engine.begin() as connection:
        exclude_others(connection)
        at = current_revision(connection)
        before = code_in_use(connection, at)
        plan = phases.plan(pending(revision, at), part, at, before)
        in_use = in_use_after(part, at, before)
        if not plan.run:
            write_state(connection, at, in_use)
    for step in plan.run:
        _run(engine, step, in_use)
    return plan.left


def _run(engine: Engine, revision: str, in_use: str) -> None:
    if getattr(script().get_revision(revision).module, "online", False):
        _run_online(engine, revision, in_use)
        return
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not _try(engine, revision, in_use):
        if time.monotonic() > deadline:
            raise TablesInUse(
                f"revision {revision} found its tables in use for {PATIENCE_SECONDS:g} seconds, and nothing of it "
                "was done: look for a long transaction, and run it again"
            )
        logger.warning("revision %s waits until its tables are no longer in use", revision)
        time.sleep(random.uniform(*PAUSE))  # noqa: S311 - so that two do not meet again


def _try(engine: Engine, revision: str, in_use: str) -> bool:
    """Whether the migration got its locks."""
    try:
        with engine.connect().execution_options(**{WRITE_OPTION: True}) as connection, connection.begin():
            exclude_others(connection)
            connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
            _migrate(connection, revision, in_use)
        return True
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) not in LOCK_SQLSTATES:
            raise
        return False


def _run_online(engine: Engine, revision: str, in_use: str) -> None:
    with engine.begin() as guard:
        exclude_others(guard)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("SET statement_timeout = 0"))
            _migrate(connection, revision, in_use)
            connection.invalidate()  # with its session setting


def _migrate(connection: Connection, revision: str, in_use: str) -> None:
    if (current_revision(connection) or "") < revision:  # otherwise another process has done it
        take_over(connection)
        _run_to(connection, revision, script()._upgrade_revs)
        write_state(connection, revision, in_use)


def upgrade(database_url: str, revision: str = "head", part: Part = "all") -> tuple[str, ...]:
    """Migrates to a revision, by default the newest, or runs a part of what is pending (app/db/phases.py). Returns the
    revisions that are left. Concurrent calls wait, and then find nothing to do. Raises `MigrationError`, also for a
    server that is not PostgreSQL."""
    with limit_waits(math.inf), temporary_engine(database_url) as engine:
        try:
            check_server(engine)
        except UnsuitableServer as error:
            raise MigrationError(str(error)) from None
        if engine.dialect.name == "postgresql" and _current(engine) is not None:
            try:
                return upgrade_in_steps(engine, revision, part)
            except TablesInUse as error:
                raise MigrationError(str(error)) from None
    with exclusive(database_url) as connection:
        return upgrade_within(connection, revision, part)


def downgrade(database_url: str, revision: str) -> None:
    """Migrates back to a revision; `base` is an empty database."""
    with exclusive(database_url) as connection:
        downgrade_within(connection, revision)


def current(database_url: str) -> str | None:
    """The revision of the database; None when it has none."""
    with temporary_engine(database_url) as engine:
        return _current(engine)


def newest() -> str | None:
    """The newest revision of this version."""
    return script().get_current_head()


def resolved(revision: str) -> str | None:
    """The revision that a command names, such as `-1`; None for `base`. Raises `CommandError` for an unknown one."""
    revisions = script().get_revisions(revision)
    return revisions[0].revision if revisions and revisions[0] else None


def plan_of(database_url: str) -> Plan:
    """What `upgrade` with the part `expand` would run, and what it would leave."""
    with temporary_engine(database_url) as engine, engine.connect() as connection:
        at = current_revision(connection)
        return phases.plan(pending("head", at), "expand", at, code_in_use(connection, at))


def title_of(revision: str) -> str:
    """What a migration says it does."""
    return str(script().get_revision(revision).doc)


def differences(database_url: str) -> list[object]:
    """Differences between models and database, as Alembic lists them; empty when the migrations are complete."""
    with temporary_engine(database_url) as engine, engine.connect() as connection:
        return differences_of(connection, Base.metadata)


def differences_of(connection: Connection, metadata: MetaData) -> list[object]:
    """Differences between those tables and the database."""
    with warnings.catch_warnings():
        # Neither library reads such an index of SQLite; a test compares it (tests/migrations/test_migrations.py).
        warnings.filterwarnings("ignore", ".*expression-based index")
        options = {"include_object": included_on(connection.dialect.name)}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def included_on(dialect: str) -> Callable[..., bool]:
    """Alembic's `include_object`: leaves out what only the other database has (`ddl_if`), and partitions, which belong
    to their parent table."""

    def included(item: Any, name: str | None, kind: str, reflected: bool, _other: object) -> bool:
        only_on = getattr(item, "_ddl_if", None)
        is_partition = kind == "table" and reflected and PARTITION.fullmatch(name or "") is not None
        return not is_partition and (only_on is None or only_on.dialect == dialect)

    return included


def upgrade_within(connection: Connection, revision: str, part: Part = "all") -> tuple[str, ...]:
    """Upgrades as `upgrade` does, in the transaction of an exclusive connection."""
    at = current_revision(connection)
    in_use = code_in_use(connection, at)
    plan = phases.plan(pending(revision, at), part, at, in_use)
    if plan.run:
        take_over(connection)
        _run_to(connection, plan.run[-1], script()._upgrade_revs)
    write_state(connection, current_revision(connection), in_use_after(part, at, in_use))
    write_planner_statistics(connection)
    return plan.left


def downgrade_within(connection: Connection, revision: str) -> None:
    """Migrates back to a revision in the transaction of an exclusive connection."""
    in_use = code_in_use(connection, current_revision(connection))
    take_over(connection)
    _run_to(connection, revision, script()._downgrade_revs)
    write_state(connection, current_revision(connection), in_use)
    write_planner_statistics(connection)


def _run_to(connection: Connection, revision: str, steps: Callable[[str, Any], Any]) -> None:
    """Runs the steps that lead to a revision, as Alembic's commands do, which would read all migrations anew."""
    migrations = script()
    environment = EnvironmentContext(
        configured(connection), migrations, fn=lambda at, _: steps(revision, at), destination_rev=revision
    )
    with environment:
        migrations.run_env()


def generate(database_url: str, message: str) -> None:
    """Writes a new migration with the differences between models and database. For development."""
    newer = max((int(path.name[1:5]) for path in (FOLDER / "versions").glob("v*.py")), default=0) + 1
    with exclusive(database_url) as connection:
        command.revision(configured(connection), message, autogenerate=True, rev_id=f"{newer:04}")


def _current(engine: Engine) -> str | None:
    with engine.connect() as connection:
        return current_revision(connection)


def _lacking(connection: Connection, metadata: MetaData) -> list[object]:
    """Differences between those tables and the database, but for tables and indexes that only the database has, such
    as those of list fields: they are in nobody's way."""
    added = {"remove_table", "remove_index"}
    return [
        difference
        for difference in differences_of(connection, metadata)
        if not (isinstance(difference, tuple) and difference[0] in added)
    ]


@contextmanager
def exclusive(database_url: str) -> Iterator[Connection]:
    """A connection in a transaction that excludes other migrations, without a time limit: tables may be large."""
    with (
        limit_waits(math.inf),
        temporary_engine(database_url) as engine,
        engine.connect().execution_options(**{WRITE_OPTION: True}) as connection,
    ):
        _before_begin(connection)
        with connection.begin():
            if connection.dialect.name == "postgresql":
                exclude_others(connection)
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
