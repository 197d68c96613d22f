"""Reading a resource: the columns that a query needs, its rows, and the objects that clients see of them.

A `Shape` is declared once per resource. What a query does not ask for is not selected, and each row becomes its
object by a function made for that query, so that a page of a thousand items costs little more than its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import BigInteger, ColumnElement, Row, Select, bindparam, select
from sqlalchemy.orm import Session

from app.clock import timestamp
from app.db.prepared import PreparedStatement, read_rows
from app.query import compile as compiled
from app.query.conditions import Query
from app.query.fields import Resource

Convert = Callable[[Any, ZoneInfo | None], Any]
Links = Callable[[Row[Any]], dict[str, Any]]


def as_timestamp(moment: datetime | None, zone: ZoneInfo | None) -> str | None:
    """A property that is an instant: UTC, or in the zone of `_tz`."""
    return None if moment is None else timestamp(moment, zone)


@dataclass(frozen=True, slots=True)
class Property:
    """One property: the column it comes from and, where it is not shown as it is stored, how it is shown."""

    column: Any
    convert: Convert | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """How rows of one resource become objects. Each shape is itself alone, so that statements are kept by it.

    `keys` are selected for every query under their own names: what `links` and the caller's embedding need.
    `filters` are expressions for filters that differ from the property's column.
    """

    resource: Resource
    properties: Mapping[str, Property]
    keys: tuple[Any, ...]
    links: Links
    order_by: tuple[ColumnElement[Any], ...]
    filters: Mapping[str, ColumnElement[Any]] = field(default_factory=dict)

    @property
    def filter_columns(self) -> dict[str, ColumnElement[Any]]:
        """Filter name -> what it compares."""
        return {**{name: one.column for name, one in self.properties.items()}, **self.filters}


@dataclass(frozen=True, slots=True)
class Page:
    """A page of items. `size` counts them, or with `limit=0` all matching ones; `rows` are what they came from."""

    items: list[dict[str, Any]]
    size: int
    has_next: bool
    rows: Sequence[Row[Any]]


def read_page(session: Session, shape: Shape, query: Query, *scope: ColumnElement[bool]) -> Page:
    """The page that the query asks for within `scope`, which names the account: one statement."""
    conditions = [*scope, *compiled.where(query, shape.filter_columns)]
    if query.counts_only:
        total = session.execute(compiled.count(select(shape.keys[0]).where(*conditions))).scalar_one()
        return Page([], total, has_next=False, rows=[])
    statement = compiled.page(columns(shape, query).where(*conditions), query, shape.order_by)
    rows, has_next = compiled.split_page(read_rows(session, statement), query)
    show = renderer(shape, query)
    return Page([show(row) for row in rows], len(rows), has_next, rows)


def read_one(session: Session, shape: Shape, query: Query, within: Mapping[Any, int]) -> dict[str, Any] | None:
    """The one item that has these values, by column, the owner's among them; or None."""
    statement, show = _prepared_read(shape, query.fields, query.zone, tuple(within))
    values = {f"within_{place}": value for place, value in enumerate(within.values())}
    row = statement.row(session, **values)
    return None if row is None else show(row)


@lru_cache(maxsize=1024)
def _prepared_read(
    shape: Shape, fields: tuple[str, ...] | None, zone: ZoneInfo | None, names: tuple[Any, ...]
) -> tuple[PreparedStatement, Callable[[Row[Any]], dict[str, Any]]]:
    """The statement of `read_one` and what shows its row; requests differ in the values alone."""
    query = Query(fields=fields, zone=zone)
    scope = [column == bindparam(f"within_{place}", type_=BigInteger) for place, column in enumerate(names)]
    return PreparedStatement(columns(shape, query).where(*scope)), renderer(shape, query)


def columns(shape: Shape, query: Query) -> Select[Any]:
    """The select, without conditions, whose rows `renderer` understands."""
    selected = [column.label(f"p_{place}") for place, column in enumerate(_distinct(shape, query))]
    return select(*shape.keys, *selected)


def _distinct(shape: Shape, query: Query) -> list[Any]:
    """The columns of what the query shows; one that several properties come from is selected once."""
    selected = [shape.properties[name].column for name in _shown_names(shape, query)]
    return list({id(column): column for column in selected}.values())


def _shown_names(shape: Shape, query: Query) -> Sequence[str]:
    """The properties that the query shows, in the order of the resource."""
    if query.fields is None:
        return list(shape.properties)
    return [name for name in shape.properties if name in query.fields]


def renderer(shape: Shape, query: Query) -> Callable[[Row[Any]], dict[str, Any]]:
    """The function that makes an object of a row; rows come from the columns of the same query."""
    places = {id(column): place for place, column in enumerate(_distinct(shape, query), start=len(shape.keys))}
    selected = [(name, shape.properties[name]) for name in _shown_names(shape, query)]
    names = tuple(name for name, _ in selected)
    # With two places more than names, because for a single one `itemgetter` gives no tuple.
    pick = itemgetter(*(places[id(one.column)] for _, one in selected), 0, 0)
    zone, links = query.zone, shape.links
    # An instant in UTC stays one: the JSON writer shows it as wanted, ten times as fast as Python can.
    left_alone = (as_timestamp,) if zone is None else ()
    conversions = [(name, one.convert) for name, one in selected if one.convert and one.convert not in left_alone]

    def show(row: Row[Any]) -> dict[str, Any]:
        """All values at once, in C, and then those that are not shown as they are stored: per item this is what a page
        costs."""
        item = dict(zip(names, pick(row), strict=False))
        for name, convert in conversions:
            item[name] = convert(item[name], zone)
        item["_links"] = links(row)
        return item

    return show
