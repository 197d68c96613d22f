"""Engines for PostgreSQL: every setting of a connection that the service relies on."""

from __future__ import annotations

import logging
import select
from collections.abc import Collection
from typing import Any

import orjson
import psycopg
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from app.db.bounded_connection import BoundedConnection
from app.db.circuit_breaker import DatabaseCircuitBreaker
from app.db.poolers import is_apart, is_pooled
from app.db.types import dump_json
from app.db.wait_budget import COMMAND

logger = logging.getLogger(__name__)

CHECKOUT_SECONDS = 2.0
"""For a connection that other threads of the process have."""
GIVEN_UP = "tms_given_up"

# A peer that is gone without a word is noticed by unanswered packets: here by us, below by the server, which would
# otherwise keep the locks of the transaction that it was in.
WIRE = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 8000,
}
SESSION = {
    "timezone": "UTC",
    "statement_timeout": int(COMMAND * 1000),
    "idle_in_transaction_session_timeout": 60_000,
    "tcp_keepalives_idle": 10,
    "tcp_keepalives_interval": 5,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
UNSUPPORTED = "startup parameter"
"""What poolers say of settings that they do not pass on."""


def postgresql_engine(url: str, circuit_breaker: DatabaseCircuitBreaker, *, pool_size: int, autocommit: bool) -> Engine:
    """An engine that opens `circuit_breaker` when its server hangs."""
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=CHECKOUT_SECONDS,
        pool_recycle=1800,
        isolation_level="AUTOCOMMIT" if autocommit else None,
        skip_autocommit_rollback=autocommit,
        json_serializer=dump_json,
        json_deserializer=orjson.loads,
        hide_parameters=True,
    )
    connector = _Connector(circuit_breaker, make_url(url).query)
    event.listen(engine, "do_connect", connector.connect)
    event.listen(engine, "checkout", _on_checkout)
    event.listen(engine, "checkin", _on_checkin)
    return engine


class _Connector:
    """Makes the connections of an engine. The first one shows whether a pooler is between."""

    def __init__(self, circuit_breaker: DatabaseCircuitBreaker, named: Collection[str]) -> None:
        self._circuit_breaker = circuit_breaker
        self._wire = {name: value for name, value in WIRE.items() if name not in named}
        self._is_pooled: bool | None = None

    def connect(self, _dialect: Any, _record: Any, arguments: Any, options: dict[str, Any]) -> BoundedConnection:
        """SQLAlchemy's event `do_connect`."""
        made = self._open(tuple(arguments), options)
        try:
            self._look_for_pooler(made, tuple(arguments), options)
            if self._is_pooled:
                self._do_without_session(made)
        except BaseException:
            made.close()
            raise
        return made

    def _open(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> BoundedConnection:
        plain = {**self._wire, **options}
        if self._is_pooled:
            return BoundedConnection.open(self._circuit_breaker, arguments, plain)
        session = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
        try:
            return BoundedConnection.open(self._circuit_breaker, arguments, {**plain, "options": session})
        except psycopg.OperationalError as error:
            if UNSUPPORTED not in str(error):
                raise
        made = BoundedConnection.open(self._circuit_breaker, arguments, plain)
        self._found_pooler()
        return made

    def _look_for_pooler(self, made: BoundedConnection, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Every new connection is asked once, since what an address leads to may change."""
        if self._is_pooled is None:
            if is_pooled(made, lambda: self._open(arguments, options)):
                self._found_pooler()
            else:
                self._is_pooled = False
        elif not self._is_pooled and is_apart(made):
            self._found_pooler()

    def _found_pooler(self) -> None:
        if not self._is_pooled:
            logger.warning("a pooler is between this process and PostgreSQL: going on without prepared statements")
        self._is_pooled = True

    @staticmethod
    def _do_without_session(made: BoundedConnection) -> None:
        """Poolers know of the time zone, and give it to whichever of the server's connections is used."""
        made.prepare_threshold = None
        made.execute("SET timezone = 'UTC'")
        made.commit()


def _on_checkin(connection: psycopg.Connection[Any] | None, record: ConnectionPoolEntry) -> None:
    """The next checkout finds it closed, and replaces it."""
    if record.info.pop(GIVEN_UP, False) and connection is not None:
        connection.close()


def _on_checkout(connection: BoundedConnection, _record: object, _proxy: object) -> None:
    """Replaces a connection that the server has closed: the end that it sent lies unread. Asking the server whether it
    is there would cost every request a round trip."""
    if connection.closed or _is_readable(connection.fileno()):
        raise DisconnectionError("the server has closed the connection")
    connection.is_new = False


def _is_readable(descriptor: int) -> bool:
    look = select.poll()
    look.register(descriptor, select.POLLIN)
    return bool(look.poll(0))
