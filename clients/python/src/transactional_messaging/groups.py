"""Transactional groups: the reports of sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from transactional_messaging.filters import Filter, ItemQuery, PageQuery, pairs
from transactional_messaging.messages import MessageType
from transactional_messaging.pages import Collection, items_of
from transactional_messaging.part import Part
from transactional_messaging.resource import Property, Resource, Time


class Counts(Resource):
    """Counts of recipients and of what became of them."""

    sent = Property[int]()
    failed_contacts = Property[int]()
    bounced = Property[int]()
    delivered = Property[int]()
    opened = Property[int]()
    clicked = Property[int]()
    unsubscribed = Property[int]()


class Group(Counts):
    """A group, which counts the recipients of its sends and what became of them."""

    id = Property[int]()
    type = Property[MessageType]()
    name = Property[str]()
    creation_time = Time()
    last_sent_time = Time()


class GroupQuery(PageQuery, total=False):
    """Filters and parameters of `groups.list`."""

    id: Filter
    type: Filter
    name: Filter
    creation_time: Filter
    last_sent_time: Filter
    sent: Filter
    failed_contacts: Filter
    bounced: Filter
    delivered: Filter
    opened: Filter
    clicked: Filter
    unsubscribed: Filter


class Groups(Part):
    """`/v1/transactional-groups`"""

    def list(self, *, filters: Mapping[str, Filter] | None = None, **query: Unpack[GroupQuery]) -> Collection[Group]:
        """The groups of the account."""
        read = items_of("transactional-groups", Group)
        return Collection(self._caller, "/transactional-groups", pairs(query, filters), read)

    def get(self, group_id: int, **query: Unpack[ItemQuery]) -> Group:
        """One group."""
        return Group(self._caller.get(f"/transactional-groups/{group_id}", pairs(query)))
