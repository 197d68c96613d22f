"""Engines for PostgreSQL: every setting of a connection that the service relies on."""

from __future__ import annotations

import logging
import select
from collections.abc import Callable, Collection
from itertools import product
from typing import Any

import orjson
import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from app.db.bounded_connection import (
    COMMAND_SECONDS,
    BoundedConnection,
    DatabaseCircuitBreaker,
    Servers,
    limit_waits,
    repeatable_commits,
)
from app.db.outage import DISCARD_KEY
from app.db.types import dump_json

logger = logging.getLogger(__name__)


# Detecting a connection pooler in front of PostgreSQL. In transaction mode it gives each transaction another server
# connection, so that session state, prepared statements above all, belongs to another client: results may be wrong, not
# only refused.

PROBE_SECONDS = 1.0
POOLER_CHECKS = 3

Connection = psycopg.Connection[Any]


def is_apart(connection: Connection) -> bool:
    """Whether the server process that answers is not the one announced when the connection was opened."""
    try:
        return bool(backend_of(connection) != connection.info.backend_pid)
    finally:
        connection.rollback()


def is_pooled(connection: Connection, another: Callable[[], Connection]) -> bool:
    """Whether there is a pooler. Most of them invent a process id, which no server process ever has. One that passes a
    real one on is detected by two clients that take turns: sooner or later the wrong process answers."""
    if any(is_apart(connection) for _ in range(POOLER_CHECKS)):
        return True
    try:
        other = another()
    except psycopg.Error:
        return False  # the server has no connection left: no evidence of a pooler
    try:
        with limit_waits(PROBE_SECONDS):
            return _are_mixed(connection, other)
    finally:
        other.close()


def _are_mixed(first: Connection, second: Connection) -> bool:
    if first.info.backend_pid == second.info.backend_pid:
        return True
    turns = ((first, second), (second, first))
    for begin, end in product(turns, turns):
        try:
            if any(backend_of(connection) != connection.info.backend_pid for connection in begin):
                return True
        except psycopg.OperationalError:
            return True  # one transaction waits for the end of the other's
        finally:
            for connection in end:
                if not connection.closed:
                    connection.rollback()
    return False


def backend_of(connection: Connection) -> int:
    """Id of the server process that answers. Leaves the transaction open, unless the connection is in autocommit."""
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return int(row[0]) if row else 0


CHECKOUT_SECONDS = 2.0
"""Wait for a connection while other threads of the process use all of them."""

# A peer that vanishes without closing is noticed by unanswered packets: here by this process, below by the server,
# which would otherwise keep the locks of the client's transaction. It notices within 5 seconds, sooner than a request
# that waits for such a lock gives up.
KEEPALIVE_OPTIONS = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 8000,
}
SESSION_SETTINGS = {
    "timezone": "UTC",
    "statement_timeout": int(COMMAND_SECONDS * 1000),
    "idle_in_transaction_session_timeout": 60_000,
    "tcp_keepalives_idle": 2,
    "tcp_keepalives_interval": 1,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 5_000,
}
UNSUPPORTED_PARAMETER = "startup parameter"
"""Part of a pooler's error for settings that it does not pass on."""


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
    """Opens the connections of an engine. The first one shows whether there is a pooler in front of the server."""

    def __init__(self, circuit_breaker: DatabaseCircuitBreaker, in_url: Collection[str]) -> None:
        self._circuit_breaker = circuit_breaker
        self._keepalive = {name: value for name, value in KEEPALIVE_OPTIONS.items() if name not in in_url}
        self._servers = Servers()
        self._is_pooled: bool | None = None

    def connect(self, _dialect: Any, _record: Any, arguments: Any, options: dict[str, Any]) -> BoundedConnection:
        """Handles SQLAlchemy's event `do_connect`."""
        connection = self._open(tuple(arguments), options)
        try:
            self._detect_pooler(connection, tuple(arguments), options)
            if self._is_pooled:
                self._disable_session_state(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> BoundedConnection:
        plain = {**self._keepalive, **options}
        if self._is_pooled:
            return BoundedConnection.open(self._circuit_breaker, arguments, plain, self._servers)
        session = " ".join(f"-c {name}={value}" for name, value in SESSION_SETTINGS.items())
        try:
            options = {**plain, "options": session}
            return BoundedConnection.open(self._circuit_breaker, arguments, options, self._servers)
        except psycopg.OperationalError as error:
            if UNSUPPORTED_PARAMETER not in str(error):
                raise
        connection = BoundedConnection.open(self._circuit_breaker, arguments, plain, self._servers)
        self._note_pooler()
        return connection

    def _detect_pooler(
        self, connection: BoundedConnection, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        """Checks each new connection once, since the server behind an address may change."""
        if self._is_pooled is None:
            if is_pooled(connection, lambda: self._open(arguments, options)):
                self._note_pooler()
            else:
                self._is_pooled = False
        elif not self._is_pooled and is_apart(connection):
            self._note_pooler()

    def _note_pooler(self) -> None:
        if not self._is_pooled:
            logger.warning("a pooler is between this process and PostgreSQL: continuing without prepared statements")
        self._is_pooled = True

    @staticmethod
    def _disable_session_state(connection: BoundedConnection) -> None:
        """Poolers track the time zone, and set it on whichever server connection they use."""
        connection.prepare_threshold = None
        connection.execute("SET timezone = 'UTC'")
        with repeatable_commits():
            connection.commit()


def _on_checkin(connection: psycopg.Connection[Any] | None, record: ConnectionPoolEntry) -> None:
    """Closes a connection marked to be discarded, or left in a transaction; the next checkout replaces it."""
    if connection is None:
        return
    is_idle = connection.info.transaction_status == TransactionStatus.IDLE
    if record.info.pop(DISCARD_KEY, False) or not is_idle:
        connection.close()


def _on_checkout(connection: BoundedConnection, _record: object, _proxy: object) -> None:
    """Replaces a connection that the server has closed: its end of stream is unread. Pinging the server would cost
    every request a round trip."""
    if connection.closed or _is_readable(connection.fileno()):
        raise DisconnectionError("the server has closed the connection")
    connection.is_new = False


def _is_readable(descriptor: int) -> bool:
    look = select.poll()
    look.register(descriptor, select.POLLIN)
    return bool(look.poll(0))
