"""Records the statements that an engine sends, and finds the plans that read a whole table."""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, Engine, event

from app.db.history_ranges import PARTITION

EXPLAINED = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
ALIAS = re.compile(r'\b(?:FROM|JOIN|UPDATE|INTO)\s+(\w+)\s+AS\s+"?(\w+)', re.IGNORECASE)
INSTRUCTIONS_COUNTED_TOGETHER = 100
SCANNED = re.compile(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?")


class StatementRecorder:
    """Keeps the first parameters of each different statement that an engine sends inside a `with` block, and on SQLite
    the most instructions of one execution of the program that it is there, which has some for each row."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._counting: set[Any] = set()
        self.statements: dict[str, Any] = {}
        self.instructions = Counter[str]()

    def __enter__(self) -> StatementRecorder:
        event.listen(self._engine, "before_cursor_execute", self._keep)
        return self

    def __exit__(self, *_: object) -> None:
        event.remove(self._engine, "before_cursor_execute", self._keep)
        for driver in self._counting:
            with suppress(sqlite3.ProgrammingError):  # closed since
                driver.set_progress_handler(None, 0)

    def _count(self, driver: sqlite3.Connection, statement: str) -> None:
        executed = itertools.count(INSTRUCTIONS_COUNTED_TOGETHER, INSTRUCTIONS_COUNTED_TOGETHER)

        def keep_most() -> None:
            self.instructions[statement] = max(self.instructions[statement], next(executed))

        self._counting.add(driver)
        driver.set_progress_handler(keep_most, INSTRUCTIONS_COUNTED_TOGETHER)

    def _keep(
        self, connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, executemany: bool
    ) -> None:
        if connection.dialect.name == "sqlite":
            self._count(connection.connection.driver_connection, statement)
        if EXPLAINED.match(statement):
            row = parameters[0] if executemany else parameters
            if not isinstance(row, tuple | list | dict):  # rows that are inserted together, and returned
                row = parameters
            self.statements.setdefault(statement, tuple(row) if isinstance(row, list) else row)


def scanned(connection: Connection, statement: str, parameters: Any, tables: Collection[str]) -> list[str]:
    """The tables that the plan of the statement reads completely: the table itself, or an index that has an entry for
    each row."""
    if connection.dialect.name == "postgresql":
        explained = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters).scalar_one()
        read = {node["Relation Name"] for node in _nodes(explained[0]["Plan"]) if node["Node Type"] == "Seq Scan"}
        filled = connection.exec_driver_sql(FILLED, {"names": list(read)}).scalars()
        return sorted({whole_table(name) for name in filled} & set(tables))
    rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    aliases = {alias: table for table, alias in ALIAS.findall(statement)}
    partial = set(connection.exec_driver_sql(PARTIAL).scalars())
    scans = [match for row in rows if (match := SCANNED.match(row[3])) and match[2] not in partial]
    read = {str(aliases.get(match[1], match[1])) for match in scans}
    return sorted(read & set(tables))


def reads_index_alone(connection: Connection, statement: str, parameters: Any, table: str) -> bool:
    """Whether the plan of the statement reads rows of the table from an index that has all of their columns."""
    if connection.dialect.name == "postgresql":
        explained = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters).scalar_one()
        nodes = _nodes(explained[0]["Plan"])
        return any(
            node["Node Type"] == "Index Only Scan" and whole_table(node["Relation Name"]) == table for node in nodes
        )
    rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    return any(f"{table} USING COVERING INDEX" in row[3] for row in rows)


FILLED = (
    "SELECT relname FROM pg_class WHERE relname = ANY (%(names)s) AND (pg_relation_size(oid) > 0 OR NOT relispartition)"
)
"""Partitions that are created ahead have no rows to read."""
PARTIAL = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '% WHERE %'"


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def whole_table(name: str) -> str:
    """The table itself; of a partition, the one that it is part of."""
    return name.rpartition("_")[0] if PARTITION.fullmatch(name) else name


def rows_read(connection: Connection, statement: str, parameters: Any, tables: Collection[str]) -> int:
    """The work of running the statement: on PostgreSQL the rows of these tables that it reads, those that it then
    leaves out included; on SQLite the instructions of its program, which has some for each row."""
    if connection.dialect.name == "sqlite":
        return _instructions(connection, statement, parameters)
    explained = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters).scalar_one()
    scans = [scan for scan in _nodes(explained[0]["Plan"]) if whole_table(scan.get("Relation Name", "")) in tables]
    row_counts = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
    return sum(round(scan["Actual Loops"] * sum(scan.get(name, 0) for name in row_counts)) for scan in scans)


def _instructions(connection: Connection, statement: str, parameters: Any) -> int:
    driver: Any = connection.connection.driver_connection
    count = itertools.count()
    driver.set_progress_handler(lambda: next(count) < 0, 1)
    try:
        connection.exec_driver_sql(statement, parameters).all()
    finally:
        driver.set_progress_handler(None, 1)
    return next(count)
