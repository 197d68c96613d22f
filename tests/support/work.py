"""How much a database reads for a statement: a number that does not depend on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from sqlalchemy import Engine

from tests.support.statements import SentStatement

SORTING = ("sort", "incremental_sort", "bitmapscan")
"""The ways of PostgreSQL to rows that are not in their order."""


def work_of(engine: Engine, sent: SentStatement) -> int:
    """Runs a select again: the rows that PostgreSQL takes from tables and indexes, or the instructions that SQLite
    executes.

    PostgreSQL is asked for its own plan and for one that does not sort, and the smaller number counts: the few rows of
    a test are sorted as quickly as they are read in their order, so that its choice depends on what other tests have
    left in the table. How it plans for many rows is tested in tests/guards/test_plans.py.
    """
    connection: Any = engine.raw_connection()
    try:
        if engine.dialect.name == "postgresql":
            return min(_rows(connection, sent, without) for without in ((), SORTING))
        return _instructions(connection.driver_connection, sent)
    finally:
        connection.close()


def _rows(connection: Any, sent: SentStatement, without: tuple[str, ...]) -> int:
    with connection.driver_connection.transaction(force_rollback=True), connection.cursor() as cursor:
        for way in without:
            cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sent.statement}", sent.parameters)
        (plans,) = cursor.fetchone()
    found = plans if isinstance(plans, list) else orjson.loads(plans)
    return sum(
        round((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])
        for node in _nodes(found[0]["Plan"])
        if "Relation Name" in node
    )


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)


def _instructions(driver: Any, sent: SentStatement) -> int:
    executed = 0

    def count() -> int:
        nonlocal executed
        executed += 1
        return 0

    driver.set_progress_handler(count, 1)
    try:
        driver.execute(sent.statement, sent.parameters).fetchall()
    finally:
        driver.set_progress_handler(None, 0)
    return executed
