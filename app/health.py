"""Whether the parts that a process needs answer."""

from __future__ import annotations

import logging

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from app.services import Services

logger = logging.getLogger(__name__)


def check_parts(services: Services) -> dict[str, str]:
    """`ok` or `does not answer` for the database and for Redis. The reason goes to the log, not to the client."""
    return {"database": _database(services), "redis": _redis(services)}


def _database(services: Services) -> str:
    try:
        services.database.ping()
    except SQLAlchemyError as error:
        logger.warning("the database does not answer", extra={"error": str(error)})
        return "does not answer"
    return "ok"


def _redis(services: Services) -> str:
    try:
        services.redis.ping()
    except RedisError as error:
        logger.warning("Redis does not answer", extra={"error": str(error)})
        return "does not answer"
    return "ok"
