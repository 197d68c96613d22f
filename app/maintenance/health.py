"""Health of what a process depends on: the database, its schema and Redis (docs/operations.md#health)."""

from __future__ import annotations

import logging

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from app.db import wait_budget
from app.db.outage import log_failure
from app.db.probe import PROBE_SECONDS, accepts_writes
from app.db.schema import FITS, Schema, newest_revision, schema_of
from app.services import Services

logger = logging.getLogger(__name__)

OK = "ok"
SILENT = "does not answer"
NEEDED = ("database", "migrations")
"""Without these no request can be accepted; without Redis all requests can."""


def check_parts(services: Services) -> dict[str, str]:
    """`ok` or the problem of each part. The reason is logged, not returned."""
    wait_budget.current().shorten(PROBE_SECONDS)
    return {**_database(services), "redis": _redis(services)}


def failed_parts(parts: dict[str, str]) -> list[str]:
    """The parts with a problem. A newer schema is not a problem."""
    return [name for name, state in parts.items() if state not in (OK, "unknown", *FITS)]


def _database(services: Services) -> dict[str, str]:
    try:
        with services.database.read() as session:
            schema = schema_of(session.connection())
    except SQLAlchemyError as error:
        log_failure(logger, "not ready", error)
        return {"database": SILENT, "migrations": "unknown"}
    return {"database": _write(services), "migrations": _migrations(schema)}


def _write(services: Services) -> str:
    try:
        return OK if accepts_writes(services.database) else "takes no write"
    except SQLAlchemyError as error:
        log_failure(logger, "not ready", error)
        return "takes no write"


def _migrations(schema: Schema) -> str:
    if schema.state not in FITS:
        logger.warning("the database is at revision %s, this version needs %s", schema.revision, newest_revision())
    return schema.state


def _redis(services: Services) -> str:
    try:
        services.redis.ping()
    except RedisError as error:
        logger.warning("Redis does not answer", extra={"error": str(error)})
        return SILENT
    return OK
