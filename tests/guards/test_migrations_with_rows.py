"""Revisions 0005 to 0012 keep existing rows, both ways, and accept those of the release before them
(docs/operations.md#migrations). Later revisions, which change rows, have tests of their own.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    create_engine,
    insert,
    select,
)
from sqlalchemy.types import JSON, TypeEngine

from app.db import migrate

FIRST, LAST = 5, 12
REPLACED = {5: {"destination_pauses"}}
"""Revision -> tables that it replaces with empty ones, as its docstring says."""
TIME = datetime(2026, 1, 1, tzinfo=UTC)

Rows = dict[str, list[dict[str, Any]]]


def revision(number: int) -> str:
    return f"{number:04}"


def reflected(engine: Engine) -> dict[str, Table]:
    """The tables as they are in the database, those that others refer to first."""
    metadata = MetaData()
    metadata.reflect(engine)
    return {table.name: table for table in metadata.sorted_tables if table.name != "alembic_version"}


def value(column: Column[Any], number: int) -> Any:
    """A value of the column's type that no row with another number has, where the type allows it."""
    if column.primary_key or column.foreign_keys:
        return number if isinstance(column.type, Integer) else f"{column.name} {number}"
    values: dict[type[TypeEngine[Any]], Any] = {
        Boolean: True,
        Integer: number,
        Numeric: number,
        Float: number,
        DateTime: TIME + timedelta(days=number),
        LargeBinary: bytes([number]),
        JSON: [f"{column.name} {number}"],
    }
    return next((one for kind, one in values.items() if isinstance(column.type, kind)), f"{column.name} {number}")


def add_rows(engine: Engine, tables: dict[str, Table], number: int, besides: set[str]) -> None:
    """Adds a row to each table, with a value in every column."""
    with engine.begin() as connection:
        for table in tables.values():
            if table.name not in besides:
                row = {column.name: value(column, number) for column in table.columns}
                connection.execute(insert(table).values(row))


def read_rows(engine: Engine, tables: dict[str, Table], besides: set[str]) -> Rows:
    """All rows, in the columns of `tables`."""
    with engine.connect() as connection:
        return {
            name: [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()]
            for name, table in tables.items()
            if name not in besides
        }


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
def test_a_revision_keeps_all_rows_and_takes_those_of_the_release_before(database_url: str) -> None:
    migrate.upgrade(database_url, revision(FIRST - 1))
    engine = create_engine(database_url)
    try:
        add_rows(engine, reflected(engine), 1, set())
        for number in range(FIRST, LAST + 1):
            replaced = REPLACED.get(number, set())
            tables = reflected(engine)
            before = read_rows(engine, tables, replaced)
            assert all(before.values()), number
            migrate.upgrade(database_url, revision(number))
            assert read_rows(engine, tables, replaced) == before, number
            add_rows(engine, tables, number, replaced)
            both = read_rows(engine, tables, replaced)
            migrate.downgrade(database_url, revision(number - 1))
            assert read_rows(engine, tables, replaced) == both, number
            migrate.upgrade(database_url, revision(number))  # fails if the downgrade has left anything behind
            for name in replaced:
                add_rows(engine, {name: reflected(engine)[name]}, 1, set())
    finally:
        engine.dispose()
    migrate.upgrade(database_url)
    assert migrate.current(database_url) == migrate.newest()
