"""A resource with a filter of every kind, and short ways to query it and to see why a query is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.errors import ServiceError
from app.query.conditions import Alternative, Query
from app.query.fields import Filter, Kind, Resource
from app.query.grammar import parse_collection

Pair = tuple[str, str]

FILTERS = (
    Filter("id", Kind.INTEGER),
    Filter("sent", Kind.INTEGER),
    Filter("name", Kind.STRING),
    Filter("email", Kind.EMAIL),
    Filter("type", Kind.ENUM, ("email", "sms")),
    Filter("is_active", Kind.BOOLEAN),
    Filter("blocked", Kind.BOOLEAN),
    Filter("subscribed.email", Kind.BOOLEAN),
    Filter("creation_time", Kind.TIMESTAMP),
    Filter("spend", Kind.FLOAT),
    Filter("born", Kind.DATE),
    Filter("visit", Kind.DATETIME),
)
RESOURCE = Resource(
    name="things",
    collection="things",
    filters={one.name: one for one in FILTERS},
    fields=("id", "name", "creation_time"),
    expands=("parts", "owner"),
)


def parse(*pairs: Pair) -> Query:
    """The query of a collection of things."""
    return parse_collection(pairs, RESOURCE)


def alternatives(*pairs: Pair) -> tuple[Alternative, ...]:
    """What the first filter among the parameters stands for."""
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


def told(*pairs: Pair) -> str:
    """What the integrator reads about the first error of a query of things."""
    with pytest.raises(ServiceError) as caught:
        parse(*pairs)
    return caught.value.errors[0].developer_message
