"""What clients may request of a resource: its filters, its fields and the resources it can embed.

Each resource declares one `Resource`; for contacts there is one per list, because list field keys are filters too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto


class FilterType(Enum):
    """The type of a filter's value determines how the value is written and compared
    (docs/querying.md#values-by-type)."""

    INTEGER = auto()
    FLOAT = auto()
    STRING = auto()
    """Exact and case-sensitive."""
    EMAIL = auto()
    """Without regard to case."""
    UUID = auto()
    """Without regard to case, and in its usual form only."""
    ENUM = auto()
    """One of the filter's `options`."""
    BOOLEAN = auto()
    TIMESTAMP = auto()
    """An instant; values without an offset are in the zone of `_tz`."""
    DATE = auto()
    """A day of a list field, never shifted."""
    DATETIME = auto()
    """A day, or a time of day without a zone, of a list field; never shifted."""
    LABEL = auto()
    """Exact, case-sensitive and never empty: no index has the rows without a label."""


MAX_ELEMENTS = 1000
ALL_OPERATORS = ("", "ne", "in")


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter: the parameter's name without operator, its type and, for `FilterType.ENUM`, the valid values. `most`
    is the maximum of elements of a list. A filter with a `key` stands for one of each key that matches."""

    name: str
    type: FilterType
    options: tuple[str, ...] = ()
    operators: tuple[str, ...] = ALL_OPERATORS
    most: int = MAX_ELEMENTS
    key: re.Pattern[str] | None = None

    @property
    def is_keyed(self) -> bool:
        """Whether it stands for one filter of each key."""
        return self.key is not None


def keyed_name(name: str) -> str:
    """The name of a filter that stands for one of each key, as the list of filters shows it."""
    return f"{name}.{{key}}"


def filter_named(filters: Mapping[str, Filter], name: str) -> Filter | None:
    """The filter that a parameter of that name is."""
    filter_ = filters.get(name)
    if filter_ is not None and not filter_.is_keyed:
        return filter_
    first, _, key = name.partition(".")
    keyed = filters.get(keyed_name(first))
    is_key = keyed is not None and keyed.key is not None and keyed.key.fullmatch(key)
    return replace(keyed, name=name) if keyed is not None and is_key else None


@dataclass(frozen=True, slots=True)
class Resource:
    """The query interface of a resource.

    `collection` is the key in `_embedded`. `fields` are the properties that `?fields=` takes beside `_links`, which is
    always there, and `parts` those of which it accepts one member, such as `subscribed.email`. `expands` are the names
    accepted by `?expand=`. The `filters` are those of the collection, and an instance of it has the same: they are not
    available on its path, while any other parameter is unknown. What has no collection, such as message content, has
    no filters. The filters `copied` are by ids of lists or messages, which a test account knows by those of the
    originals.
    """

    name: str
    collection: str
    filters: Mapping[str, Filter]
    fields: tuple[str, ...]
    expands: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
