"""Conditions with the same meaning on both databases, each in the form for which its planner uses an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    String,
    and_,
    any_,
    func,
    literal,
    select,
    true,
    type_coerce,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from app.db.expressions import in_json, is_postgresql

MAX_ROWS_TO_SORT = 1000
"""Maximum of rows that are looked up one by one and sorted instead of found in the order of a page."""


def in_subquery(session: Session, column: Any, values: Select[Any]) -> ColumnElement[bool]:
    """The column is one of the values that a small select returns, correlated or not.

    SQLite runs such an IN once per outer row and looks the values up. PostgreSQL would test every row of the table
    against it; with an array it looks the values up.
    """
    if is_postgresql(session):
        type_ = ARRAY(BigInteger if isinstance(column.type, Integer) else String)
        condition: ColumnElement[bool] = column == any_(func.array(values.scalar_subquery(), type_=type_))
    else:
        condition = column.in_(values)
    return condition


def json_contains(session: Session, column: Any, part: Mapping[str, Any]) -> ColumnElement[bool] | None:
    """The JSON object has these members, for PostgreSQL's GIN index; None on SQLite, which has no such index."""
    if not is_postgresql(session):
        return None
    return type_coerce(column, JSONB).contains(literal(dict(part), JSONB))


class IndexedRows(NamedTuple):
    """Some of the rows that a condition selects, and the column by whose index they are found."""

    rows: ColumnElement[bool]
    column: Any


@contextmanager
def planned_for_values(session: Session) -> Iterator[None]:
    """Inside the block PostgreSQL plans each statement for the values it comes with.

    After some executions it would plan for any value, and of a filter that matches nothing expect a third of the table:
    then it reads the table in the order of the page.
    """
    if not is_postgresql(session):
        yield
        return
    driver: Any = session.connection().connection.driver_connection
    threshold, driver.prepare_threshold = driver.prepare_threshold, None
    try:
        yield
    finally:
        driver.prepare_threshold = threshold


def by_index_or_order(
    session: Session,
    id_column: Any,
    scope: ColumnElement[bool],
    condition: ColumnElement[bool],
    indexed: Sequence[IndexedRows],
) -> ColumnElement[bool]:
    """The condition, for a page in the order of an index that does not answer it; `indexed` are its rows as other
    indexes find them, all of them together.

    No planner knows which index is quicker for rare values. So the ids of the rows are selected first: a few are looked
    up, and of many the first are soon found in the order of the page.
    """
    id_selects = [
        # In the order of the index that is to answer it: any other plan would have to sort.
        select(id_column.label("id")).where(scope, rows_of_index.rows).order_by(rows_of_index.column)
        for rows_of_index in indexed
    ]
    return by_ids_or_order(session, id_column, condition, id_selects)


def by_ids_or_order(
    session: Session, id_column: Any, condition: ColumnElement[bool], id_selects: Sequence[Select[Any]]
) -> ColumnElement[bool]:
    """The condition for a page, as in `by_index_or_order`, with the selects that find the ids of its rows, each as
    `id`."""
    ids = few_ids(session, id_selects)
    if ids is not None:
        return and_(in_json(id_column, ids), condition)
    return met_by_many(session, condition)  # SQLite would look up all of them and sort


def few_ids(session: Session, id_selects: Sequence[Select[Any]]) -> Sequence[int] | None:
    """The ids that the selects find, each as `id`; None if there are more than `MAX_ROWS_TO_SORT`."""
    if not id_selects:
        return []
    few = (id_select.limit(MAX_ROWS_TO_SORT + 1).subquery() for id_select in id_selects)
    matching = union_all(*(select(ids.c.id) for ids in few)).subquery()
    ids = session.execute(select(matching.c.id).limit(MAX_ROWS_TO_SORT + 1)).scalars().all()
    return ids if len(ids) <= MAX_ROWS_TO_SORT else None


def in_any(
    session: Session, id_column: Any, condition: ColumnElement[bool], id_selects: Sequence[Select[Any]]
) -> ColumnElement[bool]:
    """The condition for a count of all rows that meet it, with the selects that find their ids, each as `id`: SQLite
    would read the whole table for several values."""
    if is_postgresql(session):
        return condition
    return cast("ColumnElement[bool]", id_column.in_(union_all(*(ids.order_by(None) for ids in id_selects))))


def met_by_many(session: Session, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """The condition, which many rows meet, in a form that SQLite does not answer by an index: an operand of IS.
    PostgreSQL knows how many rows have a value."""
    return condition if is_postgresql(session) else condition.is_(true())
