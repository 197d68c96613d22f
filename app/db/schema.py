"""Whether the database's schema fits this version of the code.

An older one, or none, does not: statements would fail one by one. A newer one does: in a rolling upgrade the first host
migrates while the others still run, so a release's migrations keep what the previous release needs, and the changelog
says so if one cannot.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, inspect, text

from app.db.database import Database
from app.distribution import COMMAND_LINE

VERSIONS = Path(__file__).parent / "migrations" / "versions"
TABLE = "alembic_version"
FITS = ("ok", "newer")

logger = logging.getLogger(__name__)


class SchemaError(Exception):
    """The schema does not fit; the text is one line for the operator."""


class Schema(NamedTuple):
    """The schema of the database. `state` is `ok`, `newer`, `older`, `missing` or `foreign`."""

    state: str
    revision: str | None


@cache
def newest_revision() -> str:
    """The revision that this version needs, from the names of the migrations: Alembic would cost each start a fifth of
    a second."""
    return max(path.name[1:5] for path in VERSIONS.glob("v[0-9][0-9][0-9][0-9]_*.py"))


def schema_of(connection: Connection) -> Schema:
    """Reads the revision. Raises `SQLAlchemyError`."""
    if not inspect(connection).has_table(TABLE):
        return Schema("missing", None)
    revision = connection.execute(text(f"SELECT max(version_num) FROM {TABLE}")).scalar()  # noqa: S608 - a constant name
    return Schema(_state(revision), revision)


def _state(revision: str | None) -> str:
    if revision is None:
        return "missing"
    if not (revision.isascii() and revision.isdigit() and len(revision) == len(newest_revision())):
        return "foreign"
    if revision == newest_revision():
        return "ok"
    return "newer" if revision > newest_revision() else "older"


def check_schema(database: Database) -> None:
    """Raises `SchemaError` for a schema that does not fit, and `SQLAlchemyError` when it cannot be read."""
    with database.read() as session:
        schema = schema_of(session.connection())
    if schema.state == "newer":
        logger.warning("the database is at revision %s, this version knows %s", schema.revision, newest_revision())
    if schema.state in FITS:
        return
    if schema.state == "foreign":
        raise SchemaError(f"the database is at revision {schema.revision}, which this service does not have")
    has = f"at revision {schema.revision}" if schema.revision else "not migrated yet"
    raise SchemaError(f"the database is {has}, this version needs {newest_revision()}: run `{COMMAND_LINE} db upgrade`")
