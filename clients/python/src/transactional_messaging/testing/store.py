"""What the fake keeps: lists with contacts, messages and groups, as the API shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from transactional_messaging.testing.refusals import Problem, Refusal, invalid, text_of_now

Json = dict[str, Any]
WRITABLE = ("email", "mobile", "subscribed", "is_active", "double_opt_in")
COUNTS = ("sent", "failed_contacts", "bounced", "delivered", "opened", "clicked", "unsubscribed")
NOT_IN_KEYS = re.compile(r"[^a-z0-9]+")


class Store:
    """The rows of one account."""

    def __init__(self) -> None:
        self.lists: dict[int, Json] = {}
        self.fields: dict[int, list[str]] = {}
        self.contacts: dict[int, dict[int, Json]] = {}
        self.messages: dict[int, Json] = {}
        self.contents: dict[int, Json] = {}
        self.groups: dict[int, Json] = {}
        self._last_id = 0

    def add_list(self, name: str, fields: Iterable[str]) -> int:
        """A list with an email, a mobile and these fields."""
        row = self._row({"name": name})
        row["_links"] = _links(f"/v1/lists/{row['id']}", contacts=f"/v1/lists/{row['id']}/contacts")
        self.lists[row["id"]], self.contacts[row["id"]] = row, {}
        self.fields[row["id"]] = [NOT_IN_KEYS.sub("_", field.lower()) for field in fields]
        return int(row["id"])

    def add_message(self, name: str, type_: str, texts: Mapping[str, str | None]) -> int:
        """A stored message."""
        names = ("subject", "from_name", "from_address", "reply_to", "thumbnail_url")
        row = self._row({"name": name, "type": type_, **{key: texts.get(key) for key in names}})
        path = f"/v1/messages/{row['id']}"
        row["_links"] = _links(path, content=f"{path}/content")
        bodies = {key: texts.get(key) for key in ("body_html", "body_text")}
        links = _links(f"{path}/content", message=path)
        self.messages[row["id"]] = row
        self.contents[row["id"]] = {"message_id": row["id"], **bodies, "_links": links}
        return int(row["id"])

    def group(self, body: Mapping[str, Any], type_: str) -> Json:
        """The group that a send names, made if it is new."""
        if body.get("group_id") is not None:
            found = self.groups.get(body["group_id"])
            if found is None:
                raise Refusal(422, [invalid("invalid_id", "group_id")])
        else:
            found = next((row for row in self.groups.values() if row["name"] == body["group_name"]), None)
        if found is None:
            row = self._row({"type": type_, "name": body["group_name"]})
            del row["last_modified_time"]
            row |= {"last_sent_time": row["creation_time"], **dict.fromkeys(COUNTS, 0)}
            row["_links"] = _links(f"/v1/transactional-groups/{row['id']}")
            found = self.groups.setdefault(row["id"], row)
        if found["type"] != type_:
            raise Refusal(409, fields={"type": {"group_id": found["id"]}})
        return found

    def create(self, list_id: int, written: Mapping[str, Any]) -> Json:
        """A new contact. Raises `Refusal` if the list has its address already."""
        contacts = self.contacts[list_id]
        identifier = "email" if written.get("email") else "mobile"
        twin = self.find(list_id, identifier, written.get(identifier))
        if twin is not None:
            raise Refusal(
                409, [Problem("conflict", {"field": identifier})], fields={identifier: {"contact_id": twin["id"]}}
            )
        flags = {"subscribed": {"email": True, "mobile": True}, "blocked": {"email": False, "mobile": False}}
        row = self._row({"list_id": list_id, "email": None, "mobile": None, **flags, "is_active": True})
        row |= {"double_opt_in": False, "double_opt_in_time": None, **dict.fromkeys(self.fields[list_id])}
        row["_links"] = _links(f"/v1/lists/{list_id}/contacts/{row['id']}", list=f"/v1/lists/{list_id}")
        self.change(row, written)
        contacts[row["id"]] = row
        return row

    def find(self, list_id: int, name: str, address: str | None) -> Json | None:
        """The contact of the list with this address."""
        found = (row for row in self.contacts[list_id].values() if address and row[name] == address)
        return next(found, None)

    @staticmethod
    def change(row: Json, written: Mapping[str, Any]) -> None:
        """Writes attributes of a contact."""
        others = {name: value for name, value in written.items() if name not in ("id", "subscribed")}
        if others.get("double_opt_in") is False and row["double_opt_in"]:
            raise Refusal(422, [invalid("cannot_reset_double_opt_in", "double_opt_in")])
        if others.get("double_opt_in") and not row["double_opt_in"]:
            row["double_opt_in_time"] = text_of_now()
        row["subscribed"] = {**row["subscribed"], **written.get("subscribed", {})}
        row |= others
        row["last_modified_time"] = text_of_now()

    def unknown(self, list_id: int, written: Mapping[str, Any], **where: Any) -> list[Problem]:
        """The attributes that contacts of the list do not have."""
        known = {*WRITABLE, *self.fields[list_id], *(("id",) if where.get("with_id") else ())}
        place = {name: value for name, value in where.items() if name != "with_id"}
        return [invalid("unexpected_field", name, **place) for name in written if name not in known]

    def _row(self, values: Mapping[str, Any]) -> Json:
        self._last_id += 1
        moment = text_of_now()
        return {"id": self._last_id, **values, "creation_time": moment, "last_modified_time": moment}


def _links(self_: str, **others: str) -> dict[str, dict[str, str]]:
    return {name: {"href": path} for name, path in {"self": self_, **others}.items()}
