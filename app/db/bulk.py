"""Inserting many rows in one statement, on both databases.

Ids are drawn before the rows are written: the events of a change contain them, and an INSERT that must return ids in
order is several times slower than one that need not. PostgreSQL gets the rows as JSON (app/db/json_insert.py); SQLite
runs in the process, and is fastest with a parameter per value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Table, insert, literal, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from app.db.database import Transaction
from app.db.dialect import is_postgresql
from app.db.json_insert import (
    ChildRows,
    CompanionRows,
    fits_json,
    insert_json,
    insert_json_statement,
    insert_with_children_statement,
)
from app.db.models import Base, table_of
from app.db.pipeline import DriverStatement
from app.db.prepared import execute_on_driver

NEXT_IDS = text(
    "SELECT nextval(sequence) FROM CAST(pg_get_serial_sequence(:table, 'id') AS regclass) sequence, "
    "generate_series(1, :count)"
)
LAST_ID = text("SELECT seq FROM sqlite_sequence WHERE name = :table")
TAKEN = (
    text(
        "INSERT INTO sqlite_sequence (name, seq) SELECT :table, 0 WHERE NOT EXISTS "
        "(SELECT 1 FROM sqlite_sequence WHERE name = :table)"
    ),
    text("UPDATE sqlite_sequence SET seq = :last WHERE name = :table"),
)


def draw_ids(session: Session, model: type[Base], count: int) -> list[int]:
    """`count` new ids of the model's table, ascending, in one statement.

    On SQLite the session must be a writing one: its lock keeps other processes from drawing the same ids.
    """
    if count == 0:
        return []
    connection, table = session.connection(), model.__tablename__
    if is_postgresql(session):
        return sorted(connection.execute(NEXT_IDS, {"table": table, "count": count}).scalars())
    last = connection.execute(LAST_ID, {"table": table}).scalar() or 0
    return list(range(last + 1, last + 1 + count))


def take_ids(session: Session, model: type[Base], count: int) -> list[int]:
    """As `draw_ids`, for rows of another table: the model's own rows never get these ids."""
    ids = draw_ids(session, model, count)
    if ids and not is_postgresql(session):
        for statement in TAKEN:
            session.connection().execute(statement, {"table": model.__tablename__, "last": ids[-1]})
    return ids


def insert_rows(
    session: Session, model: type[Base], rows: Sequence[Mapping[str, Any]], shared: Mapping[str, Any] | None = None
) -> None:
    """Inserts rows that all have the same keys, in one statement and in their order; does nothing for none.

    `shared` are columns with the same value in all rows: they are serialised, sent and parsed once.
    """
    _insert(session, table_of(model), shared or {}, rows, ignore=False)


def insert_new_rows(
    session: Session, model: type[Base], rows: Sequence[Mapping[str, Any]], shared: Mapping[str, Any] | None = None
) -> None:
    """Like `insert_rows`, but skips rows that a unique index refuses."""
    _insert(session, table_of(model), shared or {}, rows, ignore=True)


def insert_rows_last(
    transaction: Transaction, model: type[Base], rows: Sequence[Mapping[str, Any]], shared: Mapping[str, Any]
) -> list[DriverStatement]:
    """As `insert_rows`, for an action of `Transaction.at_commit`: returns the statement for the last round trip. SQLite
    has none to save: there it inserts at once. Not for tables with binary columns."""
    if is_postgresql(transaction):
        return [insert_json_statement(table_of(model), shared, rows)]
    insert_rows(transaction, model, rows, shared)
    return []


def insert_with_children(session: Session, model: type[Base], row: Mapping[str, Any], children: list[ChildRows]) -> int:
    """Inserts a row with the rows that refer to it, and returns its id: on PostgreSQL in one statement, whatever the
    number of children. Not for children with binary columns."""
    table, present = table_of(model), [child for child in children if child.rows]
    if is_postgresql(session):
        statement = insert_with_children_statement(table, row, present)
        (created,) = execute_on_driver(session.connection(), *statement).fetchone()
        return int(created)
    row_id: int = session.connection().execute(insert(table).returning(table.c.id), row).scalar_one()
    for child in present:
        insert_rows(session, child.model, child.rows, {**child.shared, child.key: row_id})
        if child.companions:
            _insert_companions(session, child, child.companions, row_id)
    return row_id


def insert_at_commit(
    transaction: Transaction, model: type[Base], row: Mapping[str, Any], children: list[ChildRows]
) -> None:
    """As `insert_with_children`, for rows that nothing else in the transaction reads or refers to: on PostgreSQL they
    are inserted right before the commit, in one round trip with what is counted. SQLite has none to save."""
    if not is_postgresql(transaction):
        insert_with_children(transaction, model, row, children)
        return
    present = [child for child in children if child.rows]
    transaction.last_rows.append(insert_with_children_statement(table_of(model), row, present))


def _insert_companions(session: Session, child: ChildRows, companions: CompanionRows, row_id: int) -> None:
    """Inserts the companions of the child rows, which were just inserted."""
    table, columns = table_of(companions.model), table_of(child.model).c
    values = [literal(value, table.c[name].type) for name, value in companions.shared.items()]
    of_parent = columns[child.key] == row_id, columns.account_id == child.shared["account_id"]
    each = select(columns.id, *values).where(*of_parent)
    session.connection().execute(insert(table).from_select([companions.key, *companions.shared], each))


def _insert(
    session: Session, table: Table, shared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, ignore: bool
) -> None:
    if not rows:
        return
    connection = session.connection()
    if is_postgresql(session) and fits_json(table):
        insert_json(connection, table, shared, rows, ignore=ignore)
        return
    parameters = [{**shared, **row} for row in rows]
    if ignore:
        dialect_insert = postgresql.insert if is_postgresql(session) else sqlite.insert
        connection.execute(dialect_insert(table).on_conflict_do_nothing(), parameters)
    else:
        connection.execute(insert(table), parameters)
