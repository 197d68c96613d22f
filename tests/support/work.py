"""Measures how much a database reads for a statement: a number that does not depend on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from sqlalchemy import Engine

from tests.support.plans import whole_table
from tests.support.statements import SentStatement


def work_of(engine: Engine, sent: SentStatement, table: str) -> int:
    """Runs a select again and counts the rows that PostgreSQL reads from the table and its indexes, or the instructions
    that SQLite executes."""
    connection: Any = engine.raw_connection()
    try:
        if engine.dialect.name == "postgresql":
            return _rows(connection, sent, table)
        return _instructions(connection.driver_connection, sent)
    finally:
        connection.close()


def _rows(connection: Any, sent: SentStatement, table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sent.statement}", sent.parameters)
        (plans,) = cursor.fetchone()
    plan = plans if isinstance(plans, list) else orjson.loads(plans)
    return sum(
        round((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])
        for node in _nodes(plan[0]["Plan"])
        if whole_table(node.get("Relation Name", "")) == table
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
