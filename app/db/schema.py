"""Whether the database's schema fits this version of the code (docs/upgrade.md#migrations).

An older one does not, unless only contracting migrations are pending: statements would fail one by one. A newer one
does as long as it was only expanded: in an upgrade the schema is expanded first, while processes of the release before
go on. They do not know the newer migrations, so the database says which code it still fits.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from sqlalchemy import Connection, inspect, text

from app.db.database import Database
from app.db.models import SchemaState
from app.db.phases import newest_revision, oldest_revision
from app.distribution import COMMAND_LINE

REVISION_TABLE = "alembic_version"
STATE_TABLE = SchemaState.__tablename__
FITTING_STATES = ("ok", "pending", "newer")

logger = logging.getLogger(__name__)


class SchemaError(Exception):
    """The schema does not fit; the text is one line for the operator."""


class Schema(NamedTuple):
    """The schema of the database. `state` is `ok`, `pending` (contracting migrations are), `newer`, `too new`, `older`,
    `missing` or `foreign`. `oldest_code` is the oldest code that works with a newer one."""

    state: str
    revision: str | None
    oldest_code: str = ""


def schema_of(connection: Connection) -> Schema:
    """Reads the revision. Raises `SQLAlchemyError`."""
    if not inspect(connection).has_table(REVISION_TABLE):
        return Schema("missing", None)
    revision = connection.execute(text(f"SELECT max(version_num) FROM {REVISION_TABLE}")).scalar()  # noqa: S608 - a constant name
    state = _state(revision)
    if state != "newer":
        return Schema(state, revision)
    oldest = oldest_code_of(connection)
    return Schema("newer" if oldest <= newest_revision() else "too new", revision, oldest)


def oldest_code_of(connection: Connection) -> str:
    """The oldest code that works with the schema, as the database says; empty if it says nothing."""
    if not inspect(connection).has_table(STATE_TABLE):
        return ""
    return connection.execute(text(f"SELECT oldest_code FROM {STATE_TABLE}")).scalar() or ""  # noqa: S608 - a constant name


def _state(revision: str | None) -> str:
    if revision is None:
        return "missing"
    if not (revision.isascii() and revision.isdigit() and len(revision) == len(newest_revision())):
        return "foreign"
    if revision == newest_revision():
        return "ok"
    if revision > newest_revision():
        return "newer"
    return "pending" if revision >= oldest_revision() else "older"


def fits(database: Database) -> bool:
    """Whether the schema fits. Raises `SQLAlchemyError` when it cannot be read."""
    with database.read() as session:
        return schema_of(session.connection()).state in FITTING_STATES


def check_schema(database: Database) -> None:
    """Raises `SchemaError` for a schema that does not fit, and `SQLAlchemyError` when it cannot be read."""
    with database.read() as session:
        schema = schema_of(session.connection())
    if schema.state == "newer":
        logger.warning("the database is at revision %s, this version knows %s", schema.revision, newest_revision())
    if schema.state not in FITTING_STATES:
        raise SchemaError(misfit(schema))


def misfit(schema: Schema) -> str:
    """Why the schema does not fit, and what to do, in one line."""
    if schema.state == "foreign":
        return f"the database is at revision {schema.revision}, which this service does not have"
    if schema.state == "too new":
        return (
            f"the database is at revision {schema.revision}, which needs a version with {schema.oldest_code} or newer, "
            f"this one has {newest_revision()}: install a newer version"
        )
    has = f"at revision {schema.revision}" if schema.revision else "not migrated yet"
    return f"the database is {has}, this version needs {oldest_revision()}: run `{COMMAND_LINE} db upgrade`"
