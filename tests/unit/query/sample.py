"""A sample resource with a filter of every type, and helpers that parse queries and return their errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.errors import ServiceError
from app.query.conditions import Alternative, Query
from app.query.cursors import CursorScope
from app.query.fields import Filter, FilterType, Resource
from app.query.grammar import parse_collection

Pair = tuple[str, str]

FILTERS = (
    Filter("id", FilterType.INTEGER),
    Filter("sent", FilterType.INTEGER),
    Filter("name", FilterType.STRING),
    Filter("email", FilterType.EMAIL),
    Filter("type", FilterType.ENUM, ("email", "sms")),
    Filter("is_active", FilterType.BOOLEAN),
    Filter("blocked", FilterType.BOOLEAN),
    Filter("subscribed.email", FilterType.BOOLEAN),
    Filter("creation_time", FilterType.TIMESTAMP),
    Filter("spend", FilterType.FLOAT),
    Filter("born", FilterType.DATE),
    Filter("visit", FilterType.DATETIME),
)
RESOURCE = Resource(
    name="things",
    collection="things",
    filters={filter_.name: filter_ for filter_ in FILTERS},
    fields=("id", "name", "creation_time"),
    expands=("parts", "owner"),
)


CURSORS = CursorScope(("k" * 32,), 7, "/v1/things")


def parse(*pairs: Pair) -> Query:
    """The query of a collection of things, without cursors."""
    return parse_collection(pairs, RESOURCE)


def parse_with_cursors(*pairs: Pair) -> Query:
    """The query of a collection of things of account 7."""
    return parse_collection(pairs, RESOURCE, CURSORS)


def alternatives(*pairs: Pair) -> tuple[Alternative, ...]:
    """The alternatives of the first filter among the parameters."""
    return parse(*pairs).conditions[0].alternatives


def errors(call: Callable[..., object], *args: object) -> list[tuple[str, str | None]]:
    """The code and the field of every error that the call raises."""
    with pytest.raises(ServiceError) as caught:
        call(*args)
    return [(error.code, error.field) for error in caught.value.errors]


def refused(*pairs: Pair) -> str:
    """The code of the only error of a query of things."""
    [(code, _)] = errors(parse, *pairs)
    return code


def refused_with_cursors(*pairs: Pair) -> list[tuple[str, str | None]]:
    """The code and the field of every error of a query of things of account 7."""
    return errors(parse_with_cursors, *pairs)


def first_message(*pairs: Pair) -> str:
    """The message about the first error of a query of things."""
    with pytest.raises(ServiceError) as caught:
        parse(*pairs)
    return caught.value.errors[0].developer_message
