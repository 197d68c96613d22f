"""Reading a resource: selects the columns that a query needs and renders each row as a JSON object.

A `Shape` is declared once per resource. Columns that a query does not request are not selected, and rows are rendered
by a function built for that query, so that a page of a thousand items costs little more than its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from app.query.links import PageEnds, ends_beyond_end, is_beyond_end, page_ends
from app.query.times import beyond

Convert = Callable[[Any, ZoneInfo | None], Any]
Links = Callable[[Any], dict[str, Any]]


def as_timestamp(moment: datetime | None, zone: ZoneInfo | None) -> str | None:
    """An instant in UTC, or in the zone of `_tz`."""
    return None if moment is None else timestamp(moment, zone)


@dataclass(frozen=True, slots=True)
class Property:
    """One property: its column and, if it is not shown as stored, its conversion."""

    column: Any
    convert: Convert | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """How rows of a resource are rendered. Shapes are compared by identity, so that statements are cached per shape.

    `keys` are selected for every query under their own names and before all others, for `links` and for embedding by
    the caller. `order` orders pages, descending: see `app.query.compile.Order`. `filters` are the expressions of
    filters that differ from the property's column.
    """

    resource: Resource
    properties: Mapping[str, Property]
    keys: tuple[Any, ...]
    links: Links
    order: tuple[Any, ...]
    filters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def filter_columns(self) -> dict[str, ColumnElement[Any]]:
        """Filter name -> the expression to compare."""
        return {**{name: property_.column for name, property_ in self.properties.items()}, **self.filters}


@dataclass(frozen=True, slots=True)
class Page:
    """A page of items, and the `rows` they were rendered from."""

    items: list[dict[str, Any]]
    ends: PageEnds
    rows: Sequence[Row[Any]]


def read_page(session: Session, shape: Shape, query: Query, *scope: ColumnElement[bool]) -> Page:
    """The page of the query within `scope`, which restricts it to the account: one statement, and one that counts the
    items if the page is beyond their end."""
    conditions = [*scope, *compiled.where(_beyond_position(query, shape), shape.filter_columns)]
    if query.counts_only:
        return counted(_count(session, shape, conditions))
    statement = compiled.page(page_columns(shape, query).where(*conditions), query, shape.order)
    page = render_page(shape, query, read_rows(session, statement))
    if is_beyond_end(query, len(page.rows)):
        return replace(page, ends=ends_beyond_end(query, _count(session, shape, conditions)))
    return page


def _beyond_position(query: Query, shape: Shape) -> Query:
    """The query with the conditions on the time of the order that its position leaves to be checked."""
    if query.position is None or not query.conditions:
        return query
    name = next((name for name, column in shape.filter_columns.items() if column is shape.order[0]), None)
    moment = query.position.item[0]
    if name is None or not isinstance(moment, datetime):
        return query
    return replace(query, conditions=beyond(query.conditions, name, moment, ascending=query.position.backward))


def _count(session: Session, shape: Shape, conditions: Sequence[ColumnElement[bool]]) -> int:
    return session.execute(compiled.count(select(shape.keys[0]).where(*conditions))).scalar_one()


def counted(total: int) -> Page:
    """The page of `limit=0`."""
    return Page([], PageEnds(total), [])


def render_page(shape: Shape, query: Query, selected: Sequence[Row[Any]]) -> Page:
    """The page of rows with `page_columns`, where a row beyond the limit shows that there is a further page."""
    rows, has_more = compiled.split_page(selected, query)
    positions = _positions(shape, _page_columns(shape, query))
    order = itemgetter(*(positions[id(column)] for column in shape.order))
    first, last = (order(rows[0]), order(rows[-1])) if rows else (None, None)
    show = renderer(shape, query)
    ends = page_ends(query, len(rows), has_more=has_more, first=first, last=last)
    return Page([show(row) for row in rows], ends, rows)


def read_one(session: Session, shape: Shape, query: Query, within: Mapping[Any, int]) -> dict[str, Any] | None:
    """The item with these values by column, the account's id among them; or None."""
    statement, show = _prepared_read(shape, query.fields, query.zone, tuple(within))
    values = {f"within_{position}": value for position, value in enumerate(within.values())}
    row = statement.row(session, **values)
    return None if row is None else show(row)


@lru_cache(maxsize=1024)
def _prepared_read(
    shape: Shape, fields: tuple[str, ...] | None, zone: ZoneInfo | None, names: tuple[Any, ...]
) -> tuple[PreparedStatement, Callable[[Row[Any]], dict[str, Any]]]:
    """The statement of `read_one` and the renderer of its row; requests differ only in the values."""
    query = Query(fields=fields, zone=zone)
    scope = [column == bindparam(f"within_{position}", type_=BigInteger) for position, column in enumerate(names)]
    return PreparedStatement(columns(shape, query).where(*scope)), renderer(shape, query)


def whole_columns(shape: Shape, prefix: str) -> list[ColumnElement[Any]]:
    """The columns of all properties, under names with the prefix: for a statement that selects other rows, too."""
    selected = [*shape.keys, *_distinct(shape, Query())]
    return [column.label(f"{prefix}{position}") for position, column in enumerate(selected)]


@lru_cache(maxsize=1024)
def whole_renderer(
    shape: Shape, fields: tuple[str, ...] | None, zone: ZoneInfo | None
) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Returns a function that renders the values of `whole_columns`, of a query with these `fields` and this zone."""
    return renderer(shape, Query(fields=fields, zone=zone), _distinct(shape, Query()))


def columns(shape: Shape, query: Query) -> Select[Any]:
    """The select, without conditions, whose rows `renderer` renders."""
    return _select(shape, _distinct(shape, query))


def page_columns(shape: Shape, query: Query) -> Select[Any]:
    """The select, without conditions, whose rows `render_page` renders."""
    return _select(shape, _page_columns(shape, query))


def _select(shape: Shape, selected: Sequence[Any]) -> Select[Any]:
    return select(*shape.keys, *(column.label(f"p_{position}") for position, column in enumerate(selected)))


def _page_columns(shape: Shape, query: Query) -> list[Any]:
    """The columns of the query's properties, and those that order the page."""
    selected = _distinct(shape, query)
    present = {id(column) for column in selected}
    return [*selected, *(column for column in shape.order if id(column) not in present)]


def _distinct(shape: Shape, query: Query) -> list[Any]:
    """The columns of the query's properties, each selected once even if several properties use it."""
    selected = [shape.properties[name].column for name in _shown_names(shape, query)]
    return list({id(column): column for column in selected}.values())


def _positions(shape: Shape, selected: Sequence[Any]) -> dict[int, int]:
    """Identity of a selected column -> its position in the row."""
    return {id(column): position for position, column in enumerate(selected, start=len(shape.keys))}


def _shown_names(shape: Shape, query: Query) -> Sequence[str]:
    """The properties of the query, in the order of the resource."""
    if query.fields is None:
        return list(shape.properties)
    named = {field.partition(".")[0] for field in query.fields if field != "_links"}
    return [name for name in shape.properties if name in named]


def _conversion(name: str, convert: Convert | None, fields: tuple[str, ...] | None) -> Convert | None:
    """The conversion of a property of which the query may request only some members."""
    if convert is None or fields is None or name in fields:
        return convert
    members = tuple(field.removeprefix(f"{name}.") for field in fields if field.startswith(f"{name}."))

    def convert_members(value: Any, zone: ZoneInfo | None) -> Any:
        whole = convert(value, zone)
        return {member: whole[member] for member in whole if member in members}

    return convert_members


def renderer(
    shape: Shape, query: Query, columns_: Sequence[Any] | None = None
) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Returns a function that renders a row of the same query's `columns`, or of these behind the keys."""
    positions = _positions(shape, _distinct(shape, query) if columns_ is None else columns_)
    selected = [(name, shape.properties[name]) for name in _shown_names(shape, query)]
    names = tuple(name for name, _ in selected)
    # Two more positions than names, because `itemgetter` returns no tuple for a single one.
    pick = itemgetter(*(positions[id(property_.column)] for _, property_ in selected), 0, 0)
    zone, links = query.zone, shape.links
    # Instants in UTC are not converted: the JSON encoder formats them ten times as fast as Python.
    unconverted = (as_timestamp,) if zone is None else ()
    conversions = [
        (name, convert)
        for name, property_ in selected
        if (convert := _conversion(name, property_.convert, query.fields)) and convert not in unconverted
    ]

    def show(row: Sequence[Any]) -> dict[str, Any]:
        """Sets all values at once, in C, then converts those that need it: this is the cost per item of a page."""
        item = dict(zip(names, pick(row), strict=False))
        for name, convert in conversions:
            item[name] = convert(item[name], zone)
        item["_links"] = links(row)
        return item

    return show
