"""Counts of the messages that have a tag."""

from __future__ import annotations

from typing import Unpack
from urllib.parse import quote

from transactional_messaging.filters import ItemQuery, pairs
from transactional_messaging.groups import Counts
from transactional_messaging.part import Part
from transactional_messaging.resource import NestedList, Property


class DayCounts(Counts):
    """The counts of a day, such as `2026-01-31`."""

    day = Property[str]()


class Tag(Counts):
    """The counts of a tag, of the last 30 days together and of each of the `days`, the newest first."""

    tag = Property[str]()
    days = NestedList(DayCounts)


class Tags(Part):
    """`/v1/tags`"""

    def get(self, tag: str, **query: Unpack[ItemQuery]) -> Tag:
        """The counts of a tag. Raises `NotFound` if nothing was counted of it in the last 30 days."""
        return Tag(self._caller.get(f"/tags/{quote(tag, safe='')}", pairs(query)))
