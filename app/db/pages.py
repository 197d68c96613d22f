"""All rows of a statement in pages, for exports: each page is a statement of its own, which begins where the one before
ended in the index of the order. So none runs for long, and its cost does not grow with the number of rows before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, func, literal, select, tuple_
from sqlalchemy.orm import Session

PAGE_SIZE = 1000
WINDOW = 10_000
"""Rows that one statement looks through."""


def pages_of(
    session: Session, statement: Select[Any], order: Sequence[Any], *, size: int = PAGE_SIZE
) -> Iterator[Sequence[Row[Any]]]:
    """The rows in ascending order by these columns, which are never null and together unique. Their values come last in
    each row."""
    columns: list[ColumnElement[Any]] = list(order)
    labels = [column.label(f"place_{number}") for number, column in enumerate(columns)]
    first = statement.add_columns(*labels).order_by(*columns).limit(size)
    rows = session.execute(first).all()
    while rows:
        yield rows
        last = [literal(value, column.type) for value, column in zip(rows[-1][-len(columns) :], columns, strict=True)]
        rows = session.execute(first.where(tuple_(*columns) > tuple_(*last))).all()


def matching_pages(
    session: Session, statement: Select[Any], scope: ColumnElement[bool], order: Sequence[Any], matches: Any
) -> Iterator[Sequence[Row[Any]]]:
    """The rows of the scope that match a condition which no index answers: the database looks through so many rows in
    one statement, and returns only those that match. `order` are the columns of an index, of which the last is unique
    in the scope."""
    place: ColumnElement[Any] = order[-1]
    window = select(place.label("place")).where(scope).order_by(*order).limit(WINDOW)
    after: tuple[ColumnElement[bool], ...] = ()
    while True:
        end = session.scalar(select(func.max(window.where(*after).subquery().c.place)))
        if end is None:
            return
        rows = session.execute(statement.where(scope, *after, place <= end, matches).order_by(*order)).all()
        for first in range(0, len(rows), PAGE_SIZE):
            yield rows[first : first + PAGE_SIZE]
        after = (place > end,)
