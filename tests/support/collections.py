"""Every paged collection, with items to read; for tests of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from app.db.models import (
    Automation,
    AutomationRun,
    AutomationVersion,
    Base,
    Contact,
    Group,
    List,
    Message,
    Recipient,
    RecipientStep,
    Send,
)
from tests.support.client import SENDS
from tests.support.filters import moment
from tests.support.tenants import Tenant, new_email, unique

BEGINNING = moment("2026-01-01")


@dataclass(frozen=True)
class PagedCollection:
    """A collection of an account, or a paged instance; `key` is the property that identifies an item."""

    tenant: Tenant
    path: str
    model: type[Base]
    key: str
    items: Callable[[dict[str, Any]], list[dict[str, Any]]]

    def page(self, href: str | None = None) -> dict[str, Any]:
        """The page that a link leads to."""
        response = self.tenant.api.get(href or self.path)
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.get_json()
        return body

    def keys(self, page: dict[str, Any]) -> list[Any]:
        """The keys of the page's items, in their order."""
        return [item[self.key] for item in self.items(page)]

    def follow(self, href: str, direction: str) -> Iterator[dict[str, Any]]:
        """The page of the link, and those that its links of this name lead to in turn."""
        following: str | None = href
        while following:
            page = self.page(following)
            yield page
            following = page["_links"].get(direction, {}).get("href")


def without_cursor(href: str) -> str:
    """The link without its cursor, which it must have."""
    parts = urlsplit(href)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    assert pairs[-1][0] == "cursor"
    return parts._replace(query=urlencode(pairs[:-1], safe=":,/")).geturl()


def _embedded(name: str) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    return lambda page: list(page["_embedded"][name])


def _times(number: int) -> dict[str, datetime]:
    """Three items have the same time."""
    time = BEGINNING + timedelta(minutes=number // 3)
    return {"creation_time": time, "last_modified_time": time}


def lists(tenant: Tenant, count: int) -> PagedCollection:
    """Lists without fields."""
    columns = {"system": False, "allow_duplicates": False, "stop_words": []}
    tenant.add_all(List, [{"name": unique("list"), **columns, **_times(number)} for number in range(count)])
    return PagedCollection(tenant, "/v1/lists", List, "id", _embedded("lists"))


def contacts(tenant: Tenant, count: int) -> PagedCollection:
    """Contacts of a list."""
    list_id = tenant.add_list()
    columns = {"list_id": list_id, "values": {}}
    tenant.add_all(Contact, [{**columns, **_times(number)} for number in range(count)])
    return PagedCollection(tenant, f"/v1/lists/{list_id}/contacts", Contact, "id", _embedded("contacts"))


def messages(tenant: Tenant, count: int) -> PagedCollection:
    """Messages without content."""
    tenant.add_all(Message, [{"name": "Message", "type": "sms", **_times(number)} for number in range(count)])
    return PagedCollection(tenant, "/v1/messages", Message, "id", _embedded("messages"))


def groups(tenant: Tenant, count: int) -> PagedCollection:
    """Groups without sends."""
    columns = {"type": "email", "own_last_sent_time": BEGINNING}
    rows = [
        {"name": unique("group"), "creation_time": _times(number)["creation_time"], **columns}
        for number in range(count)
    ]
    tenant.add_all(Group, rows)
    return PagedCollection(tenant, "/v1/transactional-groups", Group, "id", _embedded("transactional-groups"))


def sent_contacts(tenant: Tenant, count: int) -> PagedCollection:
    """Sent contacts of a message, distinguished by their reports; every third is no contact."""
    message_id = tenant.add_message()
    columns = {
        "send_id": _add_send(tenant),
        "message_id": message_id,
        "list_id": 1,
        "type": "email",
        "values": {},
        "state": "delivered",
        "creation_time": BEGINNING,
        "due_time": BEGINNING,
        "open_type": "not_opened",
    }
    rows = [
        {
            **columns,
            "uuid": unique("uuid"),
            "sent_time": _times(number)["creation_time"],
            "contact_id": number if number % 3 else None,
            "group_id": number,
        }
        for number in range(count)
    ]
    tenant.add_all(Recipient, rows)
    path = f"/v1/messages/{message_id}/sent-contacts"
    return PagedCollection(tenant, path, Recipient, "report_id", _embedded("sent-contacts"))


def recipients(tenant: Tenant, count: int) -> PagedCollection:
    """Recipients of one send."""
    columns = {
        **{"send_id": _add_send(tenant), "group_id": 1, "type": "sms", "values": {}},
        **{"state": "delivered", "open_type": "sms"},
    }
    rows = [
        {**columns, "uuid": unique("uuid"), "creation_time": _times(number)["creation_time"]} for number in range(count)
    ]
    tenant.add_all(Recipient, rows)
    return PagedCollection(tenant, SENDS, Recipient, "id", _embedded("recipients"))


def automations(tenant: Tenant, count: int) -> PagedCollection:
    """Automations without versions."""
    columns = {
        **{"kind": "standard", "action": "created", "state": "active", "version": 1, "shifted_seconds": 0},
        "list_id": tenant.add_list(),
    }
    tenant.add_all(Automation, [{"name": unique("automation"), **columns, **_times(number)} for number in range(count)])
    return PagedCollection(tenant, "/v1/automations", Automation, "id", _embedded("automations"))


def runs(tenant: Tenant, count: int) -> PagedCollection:
    """The runs of one automation."""
    automation_id = automations(tenant, 1).page()["_embedded"]["automations"][0]["id"]
    version = {"automation_id": automation_id, "number": 1, "definition": {}, "creation_time": BEGINNING}
    columns = {
        **{"automation_id": automation_id, "version_id": tenant.add(AutomationVersion, **version), "list_id": 1},
        **{"entry_key": 0, "state": "held", "step": "a", "due_time": BEGINNING, "skips_next": False},
    }
    rows = [
        {**columns, "contact_id": number, "trigger_time": _times(number)["creation_time"]} for number in range(count)
    ]
    tenant.add_all(AutomationRun, rows)
    return PagedCollection(tenant, f"/v1/automations/{automation_id}/runs", AutomationRun, "id", _embedded("runs"))


def timeline(tenant: Tenant, count: int) -> PagedCollection:
    """The steps of one recipient, distinguished by their details."""
    body = {
        "type": "email",
        "list_id": tenant.add_list(),
        "group_name": unique("group"),
        "subject": "A subject",
        "body_text": "A body",
        "recipients": [{"email": new_email()}],
    }
    response = tenant.api.post(SENDS, body)
    assert response.status_code == 202, response.text
    uuid = response.get_json()["_embedded"]["recipients"][0]["uuid"]
    path = f"{SENDS}/{uuid}"
    recipient_id = tenant.api.get(path).get_json()["id"]
    columns = {"recipient_id": recipient_id, "time": BEGINNING, "step": "deferred"}
    tenant.add_all(RecipientStep, [{**columns, "detail": f"try {number}"} for number in range(count)])
    return PagedCollection(tenant, path, RecipientStep, "detail", lambda page: list(page["timeline"]))


def _add_send(tenant: Tenant) -> int:
    return tenant.add(
        Send,
        request_id=unique("request"),
        creation_time=BEGINNING,
        type="email",
        group_id=1,
        group_name="Group",
        from_address=f"hello@{tenant.domain}",
    )


COLLECTIONS: dict[str, Callable[[Tenant, int], PagedCollection]] = {
    make_collection.__name__: make_collection
    for make_collection in (lists, contacts, messages, groups, sent_contacts, recipients, automations, runs, timeline)
}
