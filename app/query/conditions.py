"""A parsed query, independent of its text and of SQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal
from zoneinfo import ZoneInfo

from app.query.cursors import CursorScope, Position
from app.query.fields import Filter

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000

FilterValue = bool | int | float | str | date | datetime
"""Instants are aware and in UTC; date-times of list fields are naive. Integers fit into 64 bits, strings are valid
UTF-8."""


@dataclass(frozen=True, slots=True)
class Equals:
    """Exactly this value."""

    value: FilterValue


@dataclass(frozen=True, slots=True)
class IsNull:
    """No value."""


@dataclass(frozen=True, slots=True)
class Between:
    """From `low` to `high`, both included."""

    low: FilterValue
    high: FilterValue


@dataclass(frozen=True, slots=True)
class After:
    """Strictly greater."""

    low: FilterValue


@dataclass(frozen=True, slots=True)
class Before:
    """Strictly less."""

    high: FilterValue


Alternative = Equals | IsNull | Between | After | Before


@dataclass(frozen=True, slots=True)
class FilterCondition:
    """One filter parameter: `eq` and `in` match rows that match an alternative, `ne` all others, including nulls.

    There is no alternative if no row can have the requested value.
    """

    filter: Filter
    op: Literal["eq", "ne", "in"]
    alternatives: tuple[Alternative, ...]


def is_of_values(condition: FilterCondition) -> bool:
    """Whether only rows match that have a value, one of some or one in a range."""
    return condition.op != "ne" and IsNull() not in condition.alternatives


def is_of_one_value(condition: FilterCondition) -> bool:
    """Whether only rows with one value match."""
    return condition.op != "ne" and len(condition.alternatives) == 1 and isinstance(condition.alternatives[0], Equals)


def is_any_value(condition: FilterCondition) -> bool:
    """Whether all rows with a value match, whatever it is."""
    return condition.op == "ne" and condition.alternatives == (IsNull(),)


@dataclass(frozen=True, slots=True)
class Query:
    """A valid query. `Query()` is that of a request without parameters.

    `limit` 0 requests the count only; `fields` None means all fields; `zone` None means UTC. `pairs` are the parameters
    of the request without its cursor, from which the links to other pages are built, with cursors of `cursors` if there
    is one. `position` is where the page begins according to the cursor of the request; without one, `offset` applies.
    `is_test` says that a test account asks, which has copies of lists and messages.
    """

    limit: int = DEFAULT_LIMIT
    offset: int = 0
    fields: tuple[str, ...] | None = None
    expand: frozenset[str] = frozenset()
    zone: ZoneInfo | None = None
    conditions: tuple[FilterCondition, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    cursors: CursorScope | None = None
    position: Position | None = None
    is_test: bool = False

    @property
    def counts_only(self) -> bool:
        """Whether the client requests the number of matching items and no items (docs/querying.md#counting)."""
        return self.limit == 0
