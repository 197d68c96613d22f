"""Conditions with the same meaning on both databases, each in the form for which its planner uses an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    String,
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
MAX_COUNTED = 10
"""Conditions of a request that are looked at for one that few rows meet."""


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


@dataclass(frozen=True, eq=False)
class IndexedCondition:
    """A condition that an index answers, as one of several."""

    condition: ColumnElement[bool]
    id_selects: Sequence[Select[Any]]
    """Together they find the ids of all its rows, each as `id`."""
    leads: bool
    """Whether a page is best read from the index also if many meet it, such as one that has the order of pages."""
    is_rare: bool = False
    """Whether only few rows can ever meet it, such as those with a unique value."""


class IndexChoice(NamedTuple):
    """How several conditions are answered together."""

    leading: IndexedCondition | None
    """The condition from whose index the rows are read, if one leads."""
    checked: list[ColumnElement[bool]]
    """The others in a form in which no index answers them, with the ids of the rows if few meet one of them."""


def choose_index(
    session: Session, id_column: Any, indexed: Sequence[IndexedCondition], *, counts: bool = False
) -> IndexChoice:
    """By which index the conditions are answered, for a page or to count all rows; probably few meet the first of them.

    A rare one leads. Otherwise no planner knows how many rows have a value: unless there is only one condition, and its
    index leads, the ids of the rows that meet a condition are selected first. This is tried with the first
    `MAX_COUNTED` conditions until one has few ids, which are looked up. If all have many, one index is read. The other
    conditions are checked.
    """
    leading, ids = next((each for each in indexed if each.is_rare), None), None
    if leading is None and (len(indexed) > 1 or not all(each.leads for each in indexed)):
        selected = (few_ids(session, each.id_selects) for each in indexed[:MAX_COUNTED])
        ids = next((few for few in selected if few is not None), None)
    if leading is None and ids is None:
        leading = next((each for each in indexed if counts or each.leads), None)
    checked = [met_by_many(session, each.condition) for each in indexed if each is not leading]
    return IndexChoice(leading, checked if ids is None else [*checked, in_json(id_column, ids)])


def answered_together(
    session: Session, id_column: Any, indexed: Sequence[IndexedCondition], *, counts: bool = False
) -> list[ColumnElement[bool]]:
    """The conditions in the form in which an index answers them together."""
    leading, checked = choose_index(session, id_column, indexed, counts=counts)
    return checked if leading is None else [*checked, led_by(session, id_column, leading)]


def led_by(session: Session, id_column: Any, indexed: IndexedCondition) -> ColumnElement[bool]:
    """The condition from whose index rows are read: of rows that are found in several places, or in another table,
    SQLite would read the whole table to count them."""
    columns = [column for id_select in indexed.id_selects for column in id_select.selected_columns.id.base_columns]
    is_of_table = len(columns) == 1 and columns[0].table is id_column.expression.table
    if is_postgresql(session) or indexed.leads or is_of_table or not columns:
        return indexed.condition
    ids = union_all(*(id_select.order_by(None) for id_select in indexed.id_selects))
    return cast("ColumnElement[bool]", id_column.in_(ids))


def few_ids(session: Session, id_selects: Sequence[Select[Any]]) -> Sequence[int] | None:
    """The ids that the selects find, each as `id`; None if there are more than `MAX_ROWS_TO_SORT`."""
    if not id_selects:
        return []
    few = (id_select.limit(MAX_ROWS_TO_SORT + 1).subquery() for id_select in id_selects)
    matching = union_all(*(select(ids.c.id) for ids in few)).subquery()
    ids = session.execute(select(matching.c.id).limit(MAX_ROWS_TO_SORT + 1)).scalars().all()
    return ids if len(ids) <= MAX_ROWS_TO_SORT else None


def met_by_many(session: Session, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """The condition, which many rows meet, in a form that SQLite does not answer by an index: an operand of IS.
    PostgreSQL knows how many rows have a value."""
    return condition if is_postgresql(session) else condition.is_(true())
