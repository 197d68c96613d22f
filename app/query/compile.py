"""Compiles a `Query` to SQL, the same for SQLite and PostgreSQL; every value is a bound parameter."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Select,
    and_,
    bindparam,
    func,
    literal,
    literal_column,
    not_,
    or_,
    tuple_,
    type_coerce,
)
from sqlalchemy.sql.expression import Grouping

from app.query.conditions import After, Alternative, Before, Between, Equals, FilterCondition, IsNull, Query
from app.query.cursors import Position
from app.query.fields import FilterType
from app.query.times import on_stored_text

Columns = Mapping[str, ColumnElement[Any]]
"""Filter name -> the SQL expression to compare.

- `FilterType.EMAIL`: the form of the address that `app.addresses.email_key` gives.
- `FilterType.DATE` and `FilterType.DATETIME`: the ISO text of the list field value.
- `FilterType.TIMESTAMP`: a `UtcDateTime`. List field values: typed, as by `values[key].as_string()`.
"""

Order = Sequence[ColumnElement[Any]]
"""What orders a collection: expressions that are never null and together unique."""

NOTHING = literal_column("(1 = 0)", Boolean())
"""What no row meets. SQLAlchemy reduces `false()` and other conditions to itself, also those that join tables."""
GROUP_SIZE = 100
DEEP_OFFSET = 500
"""From this offset on the first item of a page is found by the index of the order alone, and only the rows from there
on are read: at an offset of 4,500,000 in 0.7 seconds instead of 3.1 (docs/benchmark.md#growth)."""

Row = TypeVar("Row")


def where(query: Query, columns: Columns) -> list[ColumnElement[bool]]:
    """The conditions of the query, all of which a row must match."""
    return _grouped_chain(
        and_, [_condition(condition, columns[condition.filter.name]) for condition in query.conditions]
    )


def page(select: Select[Any], query: Query, order: Order, *, ascending: bool = False) -> Select[Any]:
    """The rows of the page and one more, which shows whether there is a further page; see `split_page`. From a position
    on they are read with the index of the order, however many rows come before it (docs/querying.md#cursors)."""
    position = query.position
    if position is not None:
        ascending = ascending is not position.backward
        select = select.where(_beyond(order, position, ascending))
    directed = [column.asc() if ascending else column.desc() for column in order]
    ordered = select.order_by(*directed).limit(query.limit + 1)
    if position is not None:
        return ordered
    # Explicitly 64 bits: a plain integer is 32 bits wide in PostgreSQL and fails for a large offset.
    offset = literal(query.offset, BigInteger())
    if query.offset < DEEP_OFFSET or query.conditions:
        return ordered.offset(offset)
    first = select.with_only_columns(*order).order_by(*directed).limit(1).offset(offset).correlate(None)
    return ordered.where(_compared(order, first.scalar_subquery(), ascending, inclusive=True))


def split_page(rows: Sequence[Row], query: Query) -> tuple[Sequence[Row], bool]:
    """Returns the rows of the page in the order of the collection, and whether there is a further page in the direction
    of reading."""
    on_page = rows[: query.limit]
    backward = query.position is not None and query.position.backward
    return on_page[::-1] if backward else on_page, len(rows) > query.limit


def count(select: Select[Any]) -> Select[int]:
    """The number of rows of the select, for `limit=0`; it must not group."""
    return select.with_only_columns(func.count(), maintain_column_froms=True).order_by(None)


def _beyond(order: Order, position: Position, ascending: bool) -> ColumnElement[bool]:
    """The rows on one side of the position; both databases read such a comparison of rows from an index."""
    item = tuple_(*(literal(value, column.type) for value, column in zip(position.item, order, strict=True)))
    return _compared(order, item, ascending, inclusive=position.inclusive)


def _compared(order: Order, item: ColumnElement[Any], ascending: bool, *, inclusive: bool) -> ColumnElement[bool]:
    beyond, from_it_on = (operator.gt, operator.ge) if ascending else (operator.lt, operator.le)
    compare = from_it_on if inclusive else beyond
    return cast("ColumnElement[bool]", compare(tuple_(*order), item))


def _condition(condition: FilterCondition, column: ColumnElement[Any]) -> ColumnElement[bool]:
    matches = _any_of(condition.alternatives, column, condition.filter.type)
    if condition.op != "ne":
        return matches
    if IsNull() in condition.alternatives:
        return not_(matches)
    # `ne` also matches nulls, for which SQL comparisons are unknown (docs/querying.md#filters).
    return or_(column.is_(None), not_(matches))


def _any_of(
    alternatives: Sequence[Alternative], column: ColumnElement[Any], filter_type: FilterType
) -> ColumnElement[bool]:
    if filter_type in (FilterType.DATE, FilterType.DATETIME):
        alternatives = [text for alternative in alternatives for text in on_stored_text(alternative)]
    terms = []
    values = [alternative.value for alternative in alternatives if isinstance(alternative, Equals)]
    if values:
        terms.append(_equals(column, values, filter_type))
    terms += [_term(other, column, filter_type) for other in alternatives if not isinstance(other, Equals)]
    return or_(*_grouped_chain(or_, terms)) if terms else NOTHING


def _equals(column: ColumnElement[Any], values: Sequence[object], filter_type: FilterType) -> ColumnElement[bool]:
    if len(values) == 1:
        return column == literal(values[0], _type(column, filter_type))
    return column.in_(bindparam(None, values, type_=_type(column, filter_type), unique=True, expanding=True))


def _term(alternative: Alternative, column: ColumnElement[Any], filter_type: FilterType) -> ColumnElement[bool]:
    def bound(value: object) -> ColumnElement[Any]:
        return literal(value, _type(column, filter_type))

    match alternative:
        case Between(low, high):
            return column.between(bound(low), bound(high))
        case After(low):
            return column > bound(low)
        case Before(high):
            return column < bound(high)
    return column.is_(None)


def _type(column: ColumnElement[Any], filter_type: FilterType) -> Any:
    """A client's integer may be larger than a narrow column, so it is bound with 64 bits."""
    return BigInteger() if filter_type is FilterType.INTEGER else column.type


def _grouped_chain(
    join: Callable[..., ColumnElement[bool]], terms: list[ColumnElement[bool]]
) -> list[ColumnElement[bool]]:
    """The terms, in groups if there are many: a chain nests as deep as it is long, and SQLite refuses a depth of
    1,000."""
    if len(terms) <= GROUP_SIZE:
        return terms
    groups = (terms[start : start + GROUP_SIZE] for start in range(0, len(terms), GROUP_SIZE))
    # SQLAlchemy merges a chain that is only parenthesized into the chain around it.
    return [type_coerce(Grouping(join(*group)), Boolean()) for group in groups]
