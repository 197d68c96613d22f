"""Detecting a connection pooler in front of PostgreSQL. In transaction mode it gives each transaction another server
connection, so that session state, prepared statements above all, belongs to another client: results may be wrong, not
only refused.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import psycopg

from app.db.wait_budget import limit_waits

PROBE_SECONDS = 1.0
CHECKS = 3

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
    if any(is_apart(connection) for _ in range(CHECKS)):
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


def _are_mixed(one: Connection, other: Connection) -> bool:
    if one.info.backend_pid == other.info.backend_pid:
        return True
    turns = ((one, other), (other, one))
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
