"""Tables of queries with their results, for collections that differ only in their columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.client import Client, items

Pairs = Sequence[tuple[str, str]]


def moment(text: str) -> datetime:
    """An instant from `2026-01-31` or `2026-01-31T10:00:00`, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@dataclass(frozen=True)
class Collection:
    """A collection of items that differ in one property."""

    client: Client
    path: str
    name: str
    key: str
    counted: set[str] = field(default_factory=set)

    def get(self, pairs: Pairs = ()) -> list[Any]:
        """The keys of the matching items, in their order."""
        return [item[self.key] for item in items(self.client.get(self.path, list(pairs)), self.name)]

    def matching_keys(self, pairs: Pairs) -> set[Any]:
        """The keys of the matching items as a set. The `size` of `limit=0` must agree; it is read with the first value
        of a filter."""
        keys = self.get(pairs)
        filters = " ".join(name for name, _ in pairs)
        if filters not in self.counted:
            self.counted.add(filters)
            counted = self.client.get(self.path, [*pairs, ("limit", "0")]).get_json()
            assert (counted["size"], counted["_embedded"][self.name]) == (len(keys), [])
        return set(keys)


def integer_cases(name: str, values: dict[Any, int | None]) -> Iterable[tuple[str, str, set[Any]]]:
    """Every operator of an integer filter: key, value and the keys of the items that match."""

    def of(*accepted: int | None) -> set[Any]:
        return {key for key, value in values.items() if value in accepted}

    distinct_values = sorted({value for value in values.values() if value is not None})
    low, high = distinct_values[0], distinct_values[-1]
    between = [value for value in distinct_values if low <= value <= distinct_values[1]]
    everything = set(values)
    yield name, str(low), of(low)
    yield f"{name}:ne", str(low), everything - of(low)
    yield f"{name}:in", f"{low},{high}", of(low, high)
    yield f"{name}:in", f"{low}..{distinct_values[1]}", of(*between)
    yield f"{name}:in", f"{low}..", of(*[value for value in distinct_values if value > low])
    yield f"{name}:in", f"..{high}", of(*[value for value in distinct_values if value < high])
    yield f"{name}:in", f"{high},{low}..{low}", of(low, high)
    yield name, "", of(None)
    yield f"{name}:ne", "", everything - of(None)
    yield name, "9" * 40, set()
    yield f"{name}:ne", "9" * 40, everything
    yield f"{name}:in", f"..{'9' * 40}", everything - of(None)


def text_cases(name: str, values: dict[Any, str | None]) -> Iterable[tuple[str, str, set[Any]]]:
    """Every operator of a string filter."""

    def of(*accepted: str | None) -> set[Any]:
        return {key for key, value in values.items() if value in accepted}

    distinct_values = sorted({value for value in values.values() if value})
    first, last = distinct_values[0], distinct_values[-1]
    everything = set(values)
    yield name, first, of(first)
    yield name, first.swapcase(), of(first.swapcase())
    yield name, first[:-1], of(first[:-1])
    yield f"{name}:ne", first, everything - of(first)
    yield f"{name}:in", ",".join(value.replace(",", "\\,") for value in (first, last)), of(first, last)
    yield f"{name}:in", ",".join(value.replace(",", "%2C") for value in (first, last)), of(first, last)
    yield f"{name}:in", f"{first.replace(',', '')}..{last.replace(',', '')}", set()
    yield name, "", of(None, "")
    yield f"{name}:ne", "", everything - of(None, "")
    for pattern in ("%", "_" * len(first), "' OR '1'='1", "\x00"):
        yield name, pattern, set()


def time_cases(name: str, values: dict[Any, datetime | None]) -> Iterable[tuple[str, str, set[Any]]]:
    """Every operator and form of a timestamp filter; the items lie on different days."""

    def of(*accepted: datetime | None) -> set[Any]:
        return {key for key, value in values.items() if value in accepted}

    distinct_values = sorted({value for value in values.values() if value is not None})
    first, second, last = distinct_values[0], distinct_values[1], distinct_values[-1]
    everything = set(values)

    def as_text(value: datetime) -> str:
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")

    yield name, as_text(first), of(first)
    yield name, as_text(first).removesuffix("Z"), of(first)
    yield name, as_text(first + timedelta(hours=10)).replace("Z", "+1000"), of(first)
    yield name, as_text(first + timedelta(hours=10)).replace("Z", " 10:00"), of(first)
    yield name, as_text(first + timedelta(seconds=1)), set()
    yield name, f"{first:%Y-%m-%d}", of(first)
    yield f"{name}:ne", as_text(first), everything - of(first)
    yield f"{name}:ne", f"{first:%Y-%m-%d}", everything - of(first)
    yield f"{name}:in", f"{as_text(first)},{last:%Y-%m-%d}", of(first, last)
    yield f"{name}:in", f"{as_text(first)}..{as_text(second)}", of(first, second)
    yield f"{name}:in", f"{first:%Y-%m-%d}..{second:%Y-%m-%d}", of(first, second)
    yield f"{name}:in", f"{as_text(first)}..", of(*distinct_values[1:])
    yield f"{name}:in", f"{first:%Y-%m-%d}..", of(*distinct_values[1:])
    yield f"{name}:in", f"..{as_text(last)}", of(*distinct_values[:-1])
    yield f"{name}:in", f"..{last:%Y-%m-%d}", of(*distinct_values[:-1])
    yield name, "", of(None)
    yield f"{name}:ne", "", everything - of(None)


def choice_cases(name: str, values: dict[Any, str]) -> Iterable[tuple[str, str, set[Any]]]:
    """Every operator of a filter with a fixed set of choices."""
    for choice in sorted(set(values.values())):
        matching = {key for key, value in values.items() if value == choice}
        yield name, choice, matching
        yield f"{name}:ne", choice, set(values) - matching
    yield f"{name}:in", ",".join(sorted(set(values.values()))), set(values)
    yield name, "", set()


WRONG = (
    ("{}:foo", "1", "invalid_operator"),
    ("{}:", "1", "invalid_operator"),
    ("{}:IN", "1", "invalid_operator"),
    ("{}:in:in", "1", "invalid_operator"),
    ("{}:in", "", "invalid_filter_list"),
    ("{}:in", "a,,b", "invalid_filter_list"),
    ("{}:in", ",".join(["1"] * 1001), "invalid_filter_list"),
)
"""Queries that are invalid for a filter of any type."""

WRONG_INTEGERS = (
    ("{}", "abc", "invalid_query_syntax"),
    ("{}", "1.5", "invalid_query_syntax"),
    ("{}", "1,2", "invalid_query_syntax"),
    ("{}", "1..2", "invalid_query_syntax"),
    ("{}:ne", "x", "invalid_query_syntax"),
    ("{}:in", "1,x", "invalid_filter_list"),
    ("{}:in", "..", "invalid_filter_list"),
    ("{}:in", "1..2..3", "invalid_filter_list"),
)
WRONG_TIMES = (
    ("{}", "yesterday", "invalid_query_syntax"),
    ("{}", "2026-02-30", "invalid_query_syntax"),
    ("{}", "2026-01-01T25:00:00Z", "invalid_query_syntax"),
    ("{}", "2026-01-01T10:00:00.5Z", "invalid_query_syntax"),
    ("{}", "1767225600", "invalid_query_syntax"),
    ("{}:in", "2026-01-01,now", "invalid_filter_list"),
    ("{}:in", "2026-01-01..2026-13-01", "invalid_filter_list"),
)
WRONG_CHOICES = (("{}", "fax", "invalid_query_syntax"), ("{}:in", "fax", "invalid_filter_list"))
