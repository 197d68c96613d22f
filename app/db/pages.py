"""All rows of a statement in pages, for exports: each page is a statement of its own, which begins where the one before
ended in the index of the order. So none runs for long, and its cost does not grow with the number of rows before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, literal, tuple_
from sqlalchemy.orm import Session

PAGE_SIZE = 1000


def pages_of(
    session: Session, statement: Select[Any], order: Sequence[Any], *, size: int = PAGE_SIZE
) -> Iterator[Sequence[Row[Any]]]:
    """The rows in ascending order by these columns, which are never null and together unique. Their values come last in
    each row."""
    columns: list[ColumnElement[Any]] = list(order)
    labels = [column.label(f"place_{number}") for number, column in enumerate(columns)]
    first = statement.add_columns(*labels).order_by(*columns).limit(size)
    found = session.execute(first).all()
    while found:
        yield found
        last = [literal(value, column.type) for value, column in zip(found[-1][-len(columns) :], columns, strict=True)]
        found = session.execute(first.where(tuple_(*columns) > tuple_(*last))).all()
