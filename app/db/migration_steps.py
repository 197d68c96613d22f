"""Migrations of a PostgreSQL database that is in use: one transaction for each, which does not wait for its locks.

A migration that wants a table for itself waits behind every transaction that uses it, and all others wait behind the
migration. So it gives up after a moment, lets them pass, and tries again. One with `online = True` in its file runs
without a transaction, so that it may build indexes while others write (app/db/online_index.py); interrupted, it is run
again from its beginning.
"""

from __future__ import annotations

import logging
import random
import time
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from app.db import phases
from app.db.engine import WRITE
from app.db.phases import Migration, Part
from app.db.schema_state import code_in_use, in_use_after, write_state

logger = logging.getLogger(__name__)

FOLDER = Path(__file__).parent / "migrations"
ADVISORY_LOCK = 7_166_350_117
"""An arbitrary key that nothing else uses in this database."""
LOCK_TIMEOUT = "1s"
"""How long a lock is waited for: whoever wants the table meanwhile waits behind the migration."""
PATIENCE = 600.0
"""Seconds after which the migration is given up."""
PAUSE = (0.5, 1.5)
LOCKED = {"55P03", "40P01"}
"""SQLSTATEs of a lock that was not available in time, and of a deadlock."""


class TablesInUse(Exception):
    """Others have used the tables all the time that the locks were tried."""


def script() -> ScriptDirectory:
    """The migrations."""
    return ScriptDirectory(str(FOLDER))


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
    """The migrations that lead there, the oldest first. Raises `CommandError` for a revision that does not exist."""
    return phases.pending([str(step.revision.revision) for step in script()._upgrade_revs(revision, at or "base")])


def exclude_others(connection: Connection) -> None:
    """Waits, in a transaction, until no other process migrates, and removes the limits of time."""
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
    # The last statement must be one without a snapshot, which PostgreSQL keeps until the next one: an index that is
    # built while others write waits for everybody who has one, and this transaction waits for the index.
    connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))


def upgrade(engine: Engine, revision: str, part: Part) -> tuple[str, ...]:
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
    deadline = time.monotonic() + PATIENCE
    while not _try(engine, revision, in_use):
        if time.monotonic() > deadline:
            raise TablesInUse(
                f"revision {revision} found its tables in use for {PATIENCE:g} seconds, and nothing of it was done: "
                "look for a long transaction, and run it again"
            )
        logger.warning("revision %s waits until others have left its tables", revision)
        time.sleep(random.uniform(*PAUSE))  # noqa: S311 - so that two do not meet again


def _try(engine: Engine, revision: str, in_use: str) -> bool:
    """Whether the migration got its locks."""
    try:
        with engine.connect().execution_options(**{WRITE: True}) as connection, connection.begin():
            exclude_others(connection)
            connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
            _migrate(connection, revision, in_use)
        return True
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) not in LOCKED:
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
        command.upgrade(configured(connection), revision)
        write_state(connection, revision, in_use)
