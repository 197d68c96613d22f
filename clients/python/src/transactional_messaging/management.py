"""Setting up an account with a key of the level manager: `client.management.lists.create({"name": "Members"})`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from transactional_messaging.caller import Caller
from transactional_messaging.filters import Filter, ItemQuery, PageQuery, pairs
from transactional_messaging.pages import Collection, items_of
from transactional_messaging.part import Part
from transactional_messaging.resource import Property, Resource, Time

Body = Mapping[str, Any]


class Managed(Resource):
    """Something that was set up. Its other properties are items, such as `managed["name"]`."""

    id = Property[int]()
    creation_time = Time()


class ManagedQuery(PageQuery, total=False):
    """Parameters of all collections. Filters of one collection alone are given as `filters`."""

    id: Filter
    name: Filter
    creation_time: Filter


class Adjustables(Part):
    """What can be read, changed and deleted. `collection` is the last part of the path."""

    def __init__(self, caller: Caller, collection: str) -> None:
        super().__init__(caller)
        self._collection = collection
        self._path = f"/management/{collection}"

    def list(
        self, *, filters: Mapping[str, Filter] | None = None, **query: Unpack[ManagedQuery]
    ) -> Collection[Managed]:
        """All of them, newest first: `list(name="Members").first()`."""
        return Collection(self._caller, self._path, pairs(query, filters), items_of(self._collection, Managed))

    def get(self, item_id: int, **query: Unpack[ItemQuery]) -> Managed:
        """One of them."""
        return Managed(self._caller.get(f"{self._path}/{item_id}", pairs(query)))

    def update(self, item_id: int, changes: Body) -> Managed:
        """Changes what the body names, and returns the item."""
        return Managed(self._caller.patch(f"{self._path}/{item_id}", changes))

    def delete(self, item_id: int) -> None:
        """Deletes one; a key is revoked."""
        self._caller.delete(f"{self._path}/{item_id}")

    def _act(self, item_id: int, action: str, body: Body | None = None) -> Managed:
        return Managed(self._caller.post(f"{self._path}/{item_id}/{action}", body))


class Creatables(Adjustables):
    """What can also be created."""

    def create(self, item: Body, *, idempotency_key: str | None = None) -> Managed:
        """Creates one. Raises `Conflict` if the account has one of that name, or at that URL."""
        return Managed(self._caller.post(self._path, item, (), idempotency_key))


class ManagedLists(Creatables):
    """`/v1/management/lists`"""

    def delete(self, item_id: int, *, confirm: str | None = None) -> None:
        """Deletes a list, and with `confirm="contacts"` its contacts."""
        self._caller.delete(f"{self._path}/{item_id}", pairs({"confirm": confirm} if confirm else {}))


class ManagedMessages(Creatables):
    """`/v1/management/messages`"""

    def preview(self, item_id: int, preview: Body) -> Resource:
        """The message as a recipient would get it: `preview(1, {"recipients": [{"email": "ann@example.com"}]})`."""
        return Resource(self._caller.post(f"{self._path}/{item_id}/preview", preview))


class ManagedWebhooks(Creatables):
    """`/v1/management/webhooks`"""

    def add_secret(self, item_id: int, secret: Body | None = None) -> Managed:
        """Adds a secret; without one the service makes one, which `["generated_secret"]` shows only once."""
        return self._act(item_id, "secrets", secret)

    def remove_secret(self, item_id: int, secret_id: str) -> None:
        """Removes a secret by its id."""
        self._caller.delete(f"{self._path}/{item_id}/secrets/{secret_id}")

    def test(self, item_id: int) -> Managed:
        """Sends a test event."""
        return self._act(item_id, "test")

    def check(self, item_id: int) -> Managed:
        """Has the host of a refused webhook looked up once more."""
        return self._act(item_id, "check")


class ManagedDomains(Creatables):
    """`/v1/management/domains`"""

    def check(self, item_id: int) -> Managed:
        """Has the records looked up. `["is_checked"]` of the domain is true until that is done."""
        return self._act(item_id, "check")

    def rotate(self, item_id: int, selector: str | None = None) -> Managed:
        """Makes new DKIM keys, which sign once a check finds their records."""
        return self._act(item_id, "rotate", {"selector": selector} if selector else {})


class ManagedKeys(Creatables):
    """`/v1/management/keys`"""

    def rotate(self, item_id: int, overlap_hours: float | None = None) -> Managed:
        """Makes a new secret, which `["token"]` shows only once. The old one works for as many hours."""
        return self._act(item_id, "rotate", {} if overlap_hours is None else {"overlap_hours": overlap_hours})


class Management:
    """`/v1/management`: a part for each of what an account has."""

    def __init__(self, caller: Caller) -> None:
        self.lists = ManagedLists(caller, "lists")
        self.messages = ManagedMessages(caller, "messages")
        self.webhooks = ManagedWebhooks(caller, "webhooks")
        self.domains = ManagedDomains(caller, "domains")
        self.senders = Adjustables(caller, "senders")
        self.keys = ManagedKeys(caller, "keys")
        self.automations = Creatables(caller, "automations")
