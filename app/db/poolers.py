"""Telling whether a pooler stands before PostgreSQL. In transaction mode it gives each transaction another connection
of the server's, and what a session keeps there, prepared statements above all, is another client's: their answers may
be wrong, not only refused.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import psycopg

from app.db.wait_budget import limit_waits

PROBE_SECONDS = 1.0
LOOKS = 3

Connection = psycopg.Connection[Any]


def is_apart(connection: Connection) -> bool:
    """Whether another process of the server's answers than the one that the connection was told of when it was made."""
    try:
        return bool(backend_of(connection) != connection.info.backend_pid)
    finally:
        connection.rollback()


def is_pooled(connection: Connection, another: Callable[[], Connection]) -> bool:
    """Whether a pooler is between. Most of them make a process number up, which no answer ever has. One that passes
    that of some connection on is found by two clients that take turns: sooner or later the wrong one answers."""
    if any(is_apart(connection) for _ in range(LOOKS)):
        return True
    try:
        other = another()
    except psycopg.Error:
        return False  # the server has no connection left, so nothing speaks for a pooler
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
    """The process that answers. Leaves the transaction open, unless the connection is in none."""
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return int(row[0]) if row else 0
