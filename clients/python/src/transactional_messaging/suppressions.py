"""The suppression list: addresses that get no messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict, Unpack

from transactional_messaging.filters import Filter, PageQuery, pairs
from transactional_messaging.pages import Collection, items_of
from transactional_messaging.part import Part
from transactional_messaging.resource import Property, Resource, Time

State = Literal["unsubscribed", "blocked"]
Confirmation = Literal["complaint", "unsubscribe"]


class Suppression(Resource):
    """A suppressed address: `list_id` is None for the whole account, `uuid` is that of the recipient whose message led
    to it."""

    state = Property[State]()
    email = Property[str | None]()
    mobile = Property[str | None]()
    list_id = Property[int | None]()
    reason = Property[str | None]()
    reply = Property[str | None]()
    uuid = Property[str | None]()
    creation_time = Time()


class SuppressionQuery(PageQuery, total=False):
    """Filters and parameters of `suppressions.list`."""

    state: Filter
    email: Filter
    mobile: Filter
    list_id: Filter
    reason: Filter
    uuid: Filter
    creation_time: Filter


class RemovalQuery(TypedDict, total=False):
    """Parameters of `suppressions.remove`: one address, and what else its suppressions must have. `list_id` None names
    those of the whole account."""

    email: str
    mobile: str
    state: State
    list_id: int | None
    confirm: Iterable[Confirmation]


class Suppressions(Part):
    """`/v1/suppressions`"""

    def list(
        self, *, filters: Mapping[str, Filter] | None = None, **query: Unpack[SuppressionQuery]
    ) -> Collection[Suppression]:
        """The suppressions, the newest first: `list(state="blocked")`."""
        return Collection(self._caller, "/suppressions", pairs(query, filters), items_of("suppressions", Suppression))

    def add(self, suppression: Mapping[str, Any], *, idempotency_key: str | None = None) -> Suppression:
        """Adds a suppression and returns it as it is stored, also if it was there before:
        `add({"state": "blocked", "email": "ann@example.com"})`."""
        return Suppression(self._caller.post("/suppressions", suppression, (), idempotency_key))

    def add_many(self, suppressions: Iterable[Mapping[str, Any]], *, idempotency_key: str | None = None) -> None:
        """Adds up to 1000 suppressions: all of them or, if one is not valid, none."""
        self._caller.post("/suppressions", {"suppressions": [*suppressions]}, (), idempotency_key)

    def remove(self, **query: Unpack[RemovalQuery]) -> None:
        """Takes off the suppressions of an address: `remove(email="ann@example.com")`. What the person wished is taken
        off only if `confirm` names it; `Conflict` says what is missing."""
        self._caller.delete("/suppressions", pairs(query))
