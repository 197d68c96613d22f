"""Health of what a process depends on: the database, its schema and Redis (docs/health.md#probes)."""

from __future__ import annotations

import logging
import threading
import time

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from app.db import bounded_connection
from app.db.database import PROBE_SECONDS, accepts_writes
from app.db.outage import log_failure
from app.db.schema import FITTING_STATES, Schema, misfit, schema_of
from app.services import Services

logger = logging.getLogger(__name__)

OK = "ok"
SILENT = "does not answer"
UNKNOWN = "unknown"
NEEDED_CHECKS = ("database", "migrations")
"""Without these no request can be accepted; without Redis all requests can."""
FRESH_SECONDS = 1.0
"""Seconds for which the result of a probe is shown again: probes need no key, and each writes to the database."""
STALE_SECONDS = 10.0
"""Seconds for which it is shown while another probe is under way."""
UNPROBED_CHECKS = {"database": SILENT, "migrations": UNKNOWN, "redis": UNKNOWN}


class Readiness:
    """One per process. One probe at a time uses the database and Redis, so that no number of probes can take the
    threads and connections that requests need."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._parts = UNPROBED_CHECKS
        self._probed = -STALE_SECONDS

    def check(self) -> dict[str, str]:
        """`ok` or the problem of each part. The reason is logged, not returned."""
        if time.monotonic() - self._probed < FRESH_SECONDS:
            return self._parts
        has_shown = time.monotonic() - self._probed < STALE_SECONDS
        if not self._lock.acquire(timeout=0 if has_shown else PROBE_SECONDS):
            return self._parts if has_shown else UNPROBED_CHECKS
        try:
            if time.monotonic() - self._probed >= FRESH_SECONDS:  # else the one before has just ended
                self._parts = _check_parts(self._services)
                self._probed = time.monotonic()
            return self._parts
        finally:
            self._lock.release()


def failed_parts(parts: dict[str, str]) -> list[str]:
    """The parts with a problem. A newer schema is not a problem."""
    return [name for name, state in parts.items() if state not in (OK, UNKNOWN, *FITTING_STATES)]


def _check_parts(services: Services) -> dict[str, str]:
    bounded_connection.current().shorten(PROBE_SECONDS)
    return {**_database(services), "redis": _redis(services)}


def _database(services: Services) -> dict[str, str]:
    try:
        with services.database.read() as session:
            schema = schema_of(session.connection())
    except SQLAlchemyError as error:
        log_failure(logger, "not ready", error)
        return {"database": SILENT, "migrations": UNKNOWN}
    return {"database": _write(services), "migrations": _migrations(schema)}


def _write(services: Services) -> str:
    try:
        return OK if accepts_writes(services.database) else "takes no write"
    except SQLAlchemyError as error:
        log_failure(logger, "not ready", error)
        return "takes no write"


def _migrations(schema: Schema) -> str:
    if schema.state not in FITTING_STATES:
        logger.warning(misfit(schema))
    return schema.state


def _redis(services: Services) -> str:
    """While its circuit breaker is open it is not asked: a request has just waited in vain."""
    if services.redis_breaker.is_open:
        return SILENT
    try:
        services.redis.ping()
    except RedisError as error:
        services.redis_breaker.open()
        logger.warning("Redis does not answer", extra={"error": str(error)})
        return SILENT
    return OK
