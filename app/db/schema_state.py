"""Writes down in the database which code works with its schema (app/db/phases.py)."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, inspect, select

from app.db.models import SchemaState, table_of
from app.db.phases import Part, newest_revision, oldest_code

TABLE = table_of(SchemaState)


def code_in_use(connection: Connection, at: str | None) -> str:
    """The oldest code that processes may still run. A database that does not say so yet was migrated whole, by the
    release that it fits."""
    if inspect(connection).has_table(TABLE.name):
        said = connection.execute(select(TABLE.c.code_in_use)).scalar()
        if said is not None:
            return str(said)
    return at or newest_revision()


def write_state(connection: Connection, revision: str | None, in_use: str) -> None:
    """After a migration to that revision, in its transaction."""
    if revision is None or not inspect(connection).has_table(TABLE.name):
        return
    connection.execute(delete(TABLE))
    connection.execute(insert(TABLE).values(id=1, oldest_code=oldest_code(revision), code_in_use=in_use))


def in_use_after(part: Part, at: str | None, before: str) -> str:
    """The code in use once that part has run from the revision `at`: an upgrade of everything is for a service that
    stands still, and a contracting one for processes that were replaced since the schema was expanded to `at`."""
    if part == "expand" and at is not None:
        return before
    return newest_revision() if part == "all" or at is None else max(at, before)
