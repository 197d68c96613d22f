"""What clients may request of a resource: its filters, its fields and the resources it can embed.

Each resource declares one `Resource`; for contacts there is one per list, because list field keys are filters too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter: the parameter's name without operator, its type and, for `FilterType.ENUM`, the valid values."""

    name: str
    type: FilterType
    options: tuple[str, ...] = ()


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
