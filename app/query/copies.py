"""Filters by ids of lists and messages in the query of a test account, which names copies by the ids of the originals
(`app.ids.shown_id`). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from app.query.conditions import After, Alternative, Before, Between, Equals, FilterCondition, IsNull, Query


def with_copies(query: Query, filters: Collection[str]) -> Query:
    """The query whose conditions by these filters also match copies with such an id."""
    conditions = (
        _with_copies(condition) if condition.filter.name in filters else condition for condition in query.conditions
    )
    return replace(query, conditions=tuple(conditions))


def _with_copies(condition: FilterCondition) -> FilterCondition:
    alternatives = tuple(copy for alternative in condition.alternatives for copy in _both(alternative))
    return replace(condition, alternatives=alternatives)


def _both(alternative: Alternative) -> Iterator[Alternative]:
    """The ids above 0 that match, and the same negated: nobody outside knows any other."""
    ends: Any = alternative
    match alternative:
        case IsNull():
            yield alternative
        case Equals():
            if ends.value > 0:
                yield from (alternative, Equals(-ends.value))
        case Between():
            yield from _between(max(1, ends.low), ends.high)
        case Before():
            yield from _between(1, ends.high - 1)
        case After():
            low = max(0, ends.low)
            yield from (After(low), Before(-low))


def _between(low: int, high: int) -> Iterator[Alternative]:
    if low <= high:
        yield from (Between(low, high), Between(-high, -low))
