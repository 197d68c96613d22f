"""How far the clock of this machine is from that of the database (docs/crash-safety.md#clocks). SQLite has no clock of
its own: it runs in the process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, DateTime, Function, Insert, Update, func, select

from app.clock import machine_time
from app.db.database import Database

DATABASE_TIME: Function[datetime] = func.clock_timestamp(type_=DateTime(timezone=True))


class Difference(NamedTuple):
    """By how many seconds the machine's clock is ahead of the database's, at least, and what the latter shows."""

    seconds: float
    database_time: datetime

    def __str__(self) -> str:
        direction = "ahead of" if self.seconds > 0 else "behind"
        return f"this host's clock is {abs(self.seconds):.0f} s {direction} that of the database"


def compare(ask: Callable[[], datetime | None]) -> Difference | None:
    """Compares with what the database answers, as if it had read its clock in the middle of the round trip. It may have
    been half of that earlier or later, which does not count as a difference."""
    began, start = machine_time(), time.monotonic()
    answered = ask()
    half = (time.monotonic() - start) / 2
    if answered is None:
        return None
    ahead = (began - answered).total_seconds() + half
    return Difference(math.copysign(max(0.0, abs(ahead) - half), ahead), answered + timedelta(seconds=half))


def difference_from(database: Database) -> Difference | None:
    """The difference from that database; None for SQLite. Raises `SQLAlchemyError`."""
    if not database.is_postgresql:
        return None
    with database.read() as session:
        session.connection()  # connecting is no part of the round trip
        return compare(lambda: session.scalar(select(DATABASE_TIME)))


def write_and_compare(connection: Connection, statement: Insert | Update) -> tuple[bool, Difference | None]:
    """Writes one row. Returns whether it was there, and the difference, for which the same round trip serves."""
    if connection.dialect.name != "postgresql":
        return bool(connection.execute(statement).rowcount), None
    difference = compare(lambda: connection.execute(statement.returning(DATABASE_TIME)).scalar())
    return difference is not None, difference
