"""Parses the query parameters of a `GET` of a collection or an instance into a `Query`.

Every parameter is parsed independently, and all errors are reported at once, in the order of the parameters
(docs/querying.md). The methods that write are in `app.query.writes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal
from zoneinfo import ZoneInfo

from app.errors import ServiceError
from app.query.conditions import MAX_LIMIT, Alternative, FilterCondition, Query
from app.query.copies import with_copies
from app.query.cursors import CURSOR, CursorScope, Position
from app.query.fields import Filter, Resource, filter_named
from app.query.parameters import (
    Parameter,
    check_bare,
    check_once,
    parameter_error,
    parse_each,
    printable,
    unexpected_parameter,
)
from app.query.times import parse_zone
from app.query.values import expected_form, read_element, read_integer, read_value, split_list

MAX_VALUES = 5_000
"""Maximum per query, all lists together: more would keep the database busy for seconds."""
MAX_OFFSET = 2**63 - 1 - (MAX_LIMIT + 1)
"""A larger offset is reduced to this value, so that the end of the page is still a 64-bit number. No collection is that
long."""

OPERATORS: dict[str | None, Literal["eq", "ne", "in"]] = {None: "eq", "ne": "ne", "in": "in"}

UNSUPPORTED_PARAMETERS = {
    "q": ("text_search_not_supported", "q: there is no text search. Filter by field instead, as in ?name=Welcome."),
    "order_by": ("invalid_order_by", "order_by: the order cannot be chosen; collections come newest first."),
}
"""Parameters that no `GET` accepts, refused with their own codes."""


def parse_collection(
    pairs: Sequence[tuple[str, str]], resource: Resource, cursors: CursorScope | None = None, *, is_test: bool = False
) -> Query:
    """The query of a `GET` of a collection; `pairs` are the decoded parameters in order. That of a test account finds
    copies by the ids of the originals.

    Without `cursors` there is no parameter `cursor`. Raises `ServiceError` with the code of the first error and the
    errors of all parameters.
    """
    query = _parse_page(pairs, resource, cursors, resource.filters)
    return replace(with_copies(query, resource.copied), is_test=True) if is_test else query


def parse_filters(pairs: Sequence[tuple[str, str]], resource: Resource, *, is_test: bool = False) -> Query:
    """The query of a request for all that matches: filters only, without anything that says how a page looks. Raises
    as above."""
    query = parse_collection(pairs, resource, is_test=is_test)
    for key, value in pairs:
        name = Parameter.of(key, value).name
        if filter_named(resource.filters, name) is None:
            raise parameter_error("parameter_not_available", name, f"{printable(name)} is not available here.")
    return query


def parse_instance(pairs: Sequence[tuple[str, str]], resource: Resource, cursors: CursorScope | None = None) -> Query:
    """The query of a `GET` of an instance, which accepts only `fields`, `expand` and `_tz`; raises as above. `cursors`
    are for the links of embedded collections."""
    return replace(_parse(pairs, resource, INSTANCE_CONTROLS, {}), cursors=cursors)


def parse_paged_instance(
    pairs: Sequence[tuple[str, str]], resource: Resource, cursors: CursorScope | None = None
) -> Query:
    """The query of an instance that contains a collection, of which `limit`, `offset` and `cursor` select a page."""
    return _parse_page(pairs, resource, cursors, {})


def _parse_page(
    pairs: Sequence[tuple[str, str]],
    resource: Resource,
    cursors: CursorScope | None,
    filters: Mapping[str, Filter],
) -> Query:
    if cursors is None or CURSOR in filters:
        return _parse(pairs, resource, COLLECTION_CONTROLS, filters)
    others = tuple((key, value) for key, value in pairs if key != CURSOR)

    def read_cursor(text: str, _resource: Resource) -> Position:
        position = cursors.read(text, others)
        if position is None:
            detail = "cursor: it was not made for this request. Follow the links next and prev as they are."
            raise parameter_error("invalid_query_syntax", CURSOR, detail)
        return position

    controls = {**COLLECTION_CONTROLS, CURSOR: ("position", read_cursor)}
    return replace(_parse(pairs, resource, controls, filters), cursors=cursors, pairs=others)


def _parse(
    pairs: Sequence[tuple[str, str]],
    resource: Resource,
    controls: Mapping[str, Control],
    filters: Mapping[str, Filter],
) -> Query:
    zone = _requested_zone(pairs)
    attributes: dict[str, Any] = {}
    seen: set[str] = set()
    conditions: list[FilterCondition] = []

    def parse(parameter: Parameter) -> None:
        name = parameter.name
        if name in controls:
            check_bare(parameter)
            check_once(parameter, seen)
            attribute, read = controls[name]
            attributes[attribute] = read(parameter.value, resource)
        elif (filter_ := filter_named(filters, name)) is not None:
            conditions.append(_condition(parameter, filter_, zone))
        elif name in UNSUPPORTED_PARAMETERS:
            code, detail = UNSUPPORTED_PARAMETERS[name]
            raise parameter_error(code, name, detail)
        else:
            raise unexpected_parameter(parameter, resource)

    parse_each(pairs, parse)
    _check_size(conditions)
    return Query(**attributes, conditions=tuple(conditions), pairs=tuple(pairs))


def _requested_zone(pairs: Sequence[tuple[str, str]]) -> ZoneInfo | None:
    """The zone of timestamp filters, also of those before `_tz`; an invalid one is reported when its parameter is
    parsed."""
    try:
        return next((parse_zone(value) for key, value in pairs if key == "_tz"), None)
    except ServiceError:
        return None


def _condition(parameter: Parameter, filter_: Filter, zone: ZoneInfo | None) -> FilterCondition:
    if parameter.operator not in OPERATORS or (parameter.operator or "") not in filter_.operators:
        *forms, last = (f"{filter_.name}{operator and ':'}{operator}=" for operator in filter_.operators)
        operators = f"the operators are {', '.join(forms)} and {last}" if forms else f"the only operator is {last}"
        detail = f"{printable(parameter.key)}: {operators}."
        raise parameter_error("invalid_operator", filter_.name, detail)
    op = OPERATORS[parameter.operator]
    if op == "in":
        return FilterCondition(filter_, op, _list(parameter.value, filter_, zone))
    try:
        return FilterCondition(filter_, op, read_value(parameter.value, filter_, zone))
    except ValueError:
        detail = f"{parameter.key}: {printable(parameter.value)!r} is not {expected_form(filter_)}."
        raise parameter_error("invalid_query_syntax", filter_.name, detail) from None


def _list(text: str, filter_: Filter, zone: ZoneInfo | None) -> tuple[Alternative, ...]:
    elements = split_list(text)
    if len(elements) > filter_.most:
        detail = f"{filter_.name}:in has {len(elements)} elements; at most {filter_.most} are accepted."
        raise parameter_error("invalid_filter_list", filter_.name, detail)
    alternatives: list[Alternative] = []
    for position, element in enumerate(elements, start=1):
        try:
            alternatives += read_element(element, filter_, zone)
        except ValueError:
            detail = f"{filter_.name}:in: element {position}, {printable(element)!r}, is not {expected_form(filter_)}."
            raise parameter_error("invalid_filter_list", filter_.name, detail) from None
    return tuple(alternatives)


def _check_size(conditions: Sequence[FilterCondition]) -> None:
    size = 0
    for condition in conditions:
        size += max(1, len(condition.alternatives))
        if size > MAX_VALUES:
            detail = f"The filters have more than {MAX_VALUES} values together; split the query."
            raise parameter_error("invalid_filter_list", condition.filter.name, detail)


def _read_limit(text: str, _resource: Resource) -> int:
    limit = _count(text)
    if limit is None or limit > MAX_LIMIT:
        detail = f"limit: {printable(text)!r} is not an integer from 0 to {MAX_LIMIT}."
        raise parameter_error("invalid_limit", "limit", detail)
    return limit


def _read_offset(text: str, _resource: Resource) -> int:
    offset = _count(text)
    if offset is None:
        raise parameter_error(
            "invalid_offset", "offset", f"offset: {printable(text)!r} is not an integer of 0 or more."
        )
    return min(offset, MAX_OFFSET)


def _count(text: str) -> int | None:
    try:
        number = read_integer(text)
    except ValueError:
        return None
    return number if number >= 0 else None


def _read_fields(text: str, resource: Resource) -> tuple[str, ...]:
    return _known_names("fields", text, (*resource.fields, *resource.parts, "_links"))


def _read_expand(text: str, resource: Resource) -> frozenset[str]:
    return frozenset(_known_names("expand", text, resource.expands))


def _known_names(parameter: str, text: str, valid_names: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in valid_names:
            detail = f"{parameter}: {printable(name)!r} is not one of: {', '.join(valid_names)}."
            if not valid_names:
                detail = (
                    f"{parameter} is not possible here: {printable(name)!r} is not a resource that can be embedded."
                )
            raise parameter_error("invalid_query_syntax", parameter, detail)
    return names


def _read_zone(text: str, _resource: Resource) -> ZoneInfo:
    return parse_zone(text)


Control = tuple[str, Callable[[str, Resource], Any]]
"""An attribute of `Query`, and the function that parses its value."""

INSTANCE_CONTROLS: dict[str, Control] = {
    "fields": ("fields", _read_fields),
    "expand": ("expand", _read_expand),
    "_tz": ("zone", _read_zone),
}
COLLECTION_CONTROLS: dict[str, Control] = {
    "limit": ("limit", _read_limit),
    "offset": ("offset", _read_offset),
    **INSTANCE_CONTROLS,
}
