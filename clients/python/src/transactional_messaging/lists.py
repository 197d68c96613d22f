"""Lists of contacts. They are created on the service's command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Unpack

from transactional_messaging.contacts import Contact
from transactional_messaging.filters import Filter, ItemQuery, PageQuery, pairs
from transactional_messaging.pages import Collection, items_of
from transactional_messaging.part import Part
from transactional_messaging.resource import Property, Resource, Time


class ContactList(Resource):
    """A list."""

    id = Property[int]()
    name = Property[str | None]()
    creation_time = Time()
    last_modified_time = Time()

    @property
    def contacts(self) -> list[Contact]:
        """The first page of its contacts, with `expand="contacts"`."""
        found = self.get("_embedded", {}).get("contacts", {}).get("_embedded", {}).get("contacts", ())
        return [Contact(one) for one in found]


class ListQuery(PageQuery, total=False):
    """Filters and parameters of `lists.list`."""

    id: Filter
    name: Filter
    creation_time: Filter
    last_modified_time: Filter
    expand: Literal["contacts"]


class OneList(ItemQuery, total=False):
    """Parameters of `lists.get`."""

    expand: Literal["contacts"]


class Lists(Part):
    """`/v1/lists`"""

    def list(
        self, *, filters: Mapping[str, Filter] | None = None, **query: Unpack[ListQuery]
    ) -> Collection[ContactList]:
        """The lists of the account."""
        return Collection(self._caller, "/lists", pairs(query, filters), items_of("lists", ContactList))

    def get(self, list_id: int, **query: Unpack[OneList]) -> ContactList:
        """One list."""
        return ContactList(self._caller.get(f"/lists/{list_id}", pairs(query)))
