"""Contacts of a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from transactional_messaging.filters import Filter, any_of, pairs
from transactional_messaging.pages import Collection, items_of
from transactional_messaging.part import Part
from transactional_messaging.resource import Nested, OptionalTime, Property, Resource, Time

RemoveUnsubscribers = Literal["none", "list", "any"]


class Flags(Resource):
    """One flag per address."""

    email = Property[bool]()
    mobile = Property[bool]()


class Contact(Resource):
    """A person in a list. List fields are items, under their keys: `contact["first_name"]`."""

    id = Property[int]()
    list_id = Property[int]()
    creation_time = Time()
    last_modified_time = Time()
    email = Property[str | None]()
    mobile = Property[str | None]()
    subscribed = Nested(Flags)
    blocked = Nested(Flags)
    is_active = Property[bool]()
    double_opt_in = Property[bool]()
    double_opt_in_time = OptionalTime()


READ = items_of("contacts", Contact)


class Contacts(Part):
    """`/v1/lists/{list_id}/contacts`"""

    def list(
        self,
        list_id: int,
        *,
        limit: int | None = None,
        offset: int | None = None,
        fields: Iterable[str] | None = None,
        time_zone: str | None = None,
        filters: Mapping[str, Filter] | None = None,
        **properties: Filter,
    ) -> Collection[Contact]:
        """The contacts with these properties, list fields included: `list(1, plan="gold", is_active=True)`. `filters`
        takes the names that Python does not, such as `subscribed.email`. `limit` is the size of a page."""
        paging = {"limit": limit, "offset": offset, "fields": fields, "time_zone": time_zone}
        given = {name: value for name, value in paging.items() if value is not None}
        query = pairs({**given, **properties}, filters)
        return Collection(self._caller, f"/lists/{list_id}/contacts", query, READ)

    def get(
        self, list_id: int, contact_id: int, *, fields: Iterable[str] | None = None, time_zone: str | None = None
    ) -> Contact:
        """One contact."""
        given = {"fields": fields, "time_zone": time_zone}
        query = pairs({name: value for name, value in given.items() if value is not None})
        return Contact(self._caller.get(f"/lists/{list_id}/contacts/{contact_id}", query))

    def create(
        self,
        list_id: int,
        contact: Mapping[str, Any],
        *,
        remove_unsubscribers: RemoveUnsubscribers = "none",
        idempotency_key: str | None = None,
    ) -> Contact:
        """Creates a contact and returns it: `create(1, {"email": "ann@example.com", "first_name": "Ann"})`."""
        return Contact(self._create(list_id, contact, remove_unsubscribers, idempotency_key))

    def create_many(
        self,
        list_id: int,
        contacts: Iterable[Mapping[str, Any]],
        *,
        remove_unsubscribers: RemoveUnsubscribers = "none",
        idempotency_key: str | None = None,
    ) -> None:
        """Creates up to 1000 contacts: all of them or, if one is not valid, none."""
        self._create(list_id, {"contacts": [*contacts]}, remove_unsubscribers, idempotency_key)

    def update(self, list_id: int, contact_id: int, changes: Mapping[str, Any]) -> Contact:
        """Changes the attributes that are given; returns the contact as it is then."""
        return Contact(self._caller.patch(f"/lists/{list_id}/contacts/{contact_id}", changes))

    def update_many(self, list_id: int, contacts: Iterable[Mapping[str, Any]]) -> None:
        """Changes up to 1000 contacts, each named by its `id`: all of them or none."""
        self._caller.patch(f"/lists/{list_id}/contacts", {"contacts": [*contacts]})

    def delete(self, list_id: int, contact_id: int) -> None:
        """Deletes a contact."""
        self._caller.delete(f"/lists/{list_id}/contacts/{contact_id}")

    def delete_many(self, list_id: int, contact_ids: Iterable[int]) -> None:
        """Deletes up to 1000 contacts; ids that the list does not have are ignored."""
        self._caller.delete(f"/lists/{list_id}/contacts", pairs({"id": any_of(*contact_ids)}))

    def _create(
        self, list_id: int, body: Mapping[str, Any], remove: RemoveUnsubscribers, key: str | None
    ) -> dict[str, Any]:
        query = pairs({"remove_unsubscribers": remove}) if remove != "none" else ()
        return self._caller.post(f"/lists/{list_id}/contacts", body, query, key)
