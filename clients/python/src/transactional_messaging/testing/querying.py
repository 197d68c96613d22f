"""Filters and pages of the fake."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

from transactional_messaging.filters import text_of
from transactional_messaging.testing.refusals import Problem, Refusal

OTHERS = {"limit", "offset", "fields", "expand", "_tz", "cursor"}
COMMA = re.compile(r"(?<!\\),")
Pairs = Sequence[tuple[str, str]]
Item = dict[str, Any]


def envelope(path: str, name: str, items: Iterable[Item], query: Pairs) -> Item:
    """A page of the items that match, newest first."""
    found = [item for item in reversed([*items]) if all(_matches(item, *pair) for pair in query)]
    limit, offset = (_number(query, "limit", 100), _number(query, "offset", 0))
    shown = [_chosen(item, query) for item in found[offset : offset + limit]]
    links = {"self": {"href": path}}
    others = [(key, value) for key, value in query if key not in ("limit", "offset")]

    def link(start: int) -> dict[str, str]:
        return {"href": f"{path}?{urlencode([*others, ('limit', str(limit)), ('offset', str(start))])}"}

    if limit and offset + limit < len(found):
        links["next"] = link(offset + limit)
    if limit and offset:
        links["prev"] = link(max(0, offset - limit))
    size = len(shown) if limit else len(found)
    return {"offset": offset, "limit": limit, "size": size, "_links": links, "_embedded": {name: shown}}


def _number(query: Pairs, name: str, default: int) -> int:
    text = dict(query).get(name, str(default))
    if not text.isdecimal():
        raise Refusal(400, [Problem(f"invalid_{name}", {"field": name})])
    return int(text)


def _chosen(item: Item, query: Pairs) -> Item:
    names = dict(query).get("fields")
    if names is None:
        return item
    return {name: value for name, value in item.items() if name in (*names.split(","), "_links")}


def _matches(item: Item, parameter: str, wanted: str) -> bool:
    name, _, operator = parameter.partition(":")
    if name in OTHERS:
        return True
    if name == "tag" and "tags" in item:
        tags = item["tags"] or ()
        return any(one.replace("\\,", ",") in tags for one in COMMA.split(wanted)) if operator else wanted in tags
    if name.startswith("metadata.") and "metadata" in item:
        return (item["metadata"] or {}).get(name.partition(".")[2]) == wanted
    value: Any = item
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            raise Refusal(400, [Problem("parameter_not_supported", {"field": parameter})])
        value = value[part]
    if operator == "in":
        return any(_is_in(value, one.replace("\\,", ",")) for one in COMMA.split(wanted))
    return (text_of(value) == wanted) is not (operator == "ne")


def _is_in(value: Any, element: str) -> bool:
    low, dots, high = element.partition("..")
    if not dots:
        return text_of(value) == element
    if value is None:
        return False
    if low and high:
        return _order(low, value) <= _order(value, value) <= _order(high, value)
    return _order(value, value) > _order(low, value) if low else _order(value, value) < _order(high, value)


def _order(text: Any, like: Any) -> tuple[float, str]:
    """What ranges compare: numbers as numbers, everything else as text."""
    return (float(text), "") if isinstance(like, int | float) else (0.0, str(text))
