"""Requests about contacts, as the fake answers them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from transactional_messaging.testing.querying import Pairs, envelope
from transactional_messaging.testing.refusals import Problem, Refusal, json_answer
from transactional_messaging.testing.store import Json, Store
from transactional_messaging.transport import Answer

MOST_CONTACTS = 1000
NO_CONTENT = Answer(204, b"")


class ContactRequests:
    """`/v1/lists/{list_id}/contacts`"""

    def __init__(self, store: Store) -> None:
        self._store = store

    def answer(self, method: str, list_id: int, contact_id: int | None, query: Pairs, body: Json) -> Answer:
        """The answer to a request. Raises `Refusal`."""
        contacts = self._store.contacts.get(list_id)
        if contacts is None or (contact_id is not None and contact_id not in contacts):
            raise Refusal(404)
        if contact_id is None:
            return self._collection(method, list_id, query, body)
        if method == "DELETE":
            del contacts[contact_id]
            return NO_CONTENT
        if method == "PATCH":
            self._refuse_unknown(list_id, [body])
            self._store.change(contacts[contact_id], body)
        return json_answer(contacts[contact_id])

    def _collection(self, method: str, list_id: int, query: Pairs, body: Json) -> Answer:
        if method == "GET":
            rows = self._store.contacts[list_id].values()
            return json_answer(envelope(f"/v1/lists/{list_id}/contacts", "contacts", rows, query))
        if method == "DELETE":
            return self._delete(list_id, dict(query))
        if method == "POST" and "contacts" not in body:
            self._refuse_unknown(list_id, [body])
            return json_answer(self._store.create(list_id, body), 201)
        return self._several(method, list_id, body.get("contacts", []))

    def _several(self, method: str, list_id: int, several: list[Json]) -> Answer:
        if len(several) > MOST_CONTACTS:
            raise Refusal(422, [Problem("too_long", {"field": "contacts"})])
        self._refuse_unknown(list_id, several, collection="contacts", with_id=method == "PATCH")
        before = copy.deepcopy(self._store.contacts[list_id])
        try:
            for contact in several:
                if method == "PATCH":
                    self._store.change(self._required(list_id, contact, several), contact)
                else:
                    self._store.create(list_id, contact)
        except Refusal:
            self._store.contacts[list_id] = before
            raise
        return NO_CONTENT

    def _delete(self, list_id: int, query: Mapping[str, str]) -> Answer:
        ids = query.get("id:in") or query.get("id")
        if not ids:
            raise Refusal(422, [Problem("filter_id_required")])
        for text in ids.split(","):
            self._store.contacts[list_id].pop(int(text), None)
        return NO_CONTENT

    def _required(self, list_id: int, contact: Json, several: list[Json]) -> Json:
        found = self._store.contacts[list_id].get(contact.get("id", 0))
        if found is None:
            where = {"field": "id", "collection": "contacts", "index": several.index(contact)}
            raise Refusal(422, [Problem("invalid_id", where)])
        return found

    def _refuse_unknown(self, list_id: int, contacts: list[Json], **where: Any) -> None:
        found: list[Problem] = []
        for index, contact in enumerate(contacts):
            place = {**where, "index": index} if "collection" in where else where
            found += self._store.unknown(list_id, contact, **place)
        if found:
            raise Refusal(422, found)
