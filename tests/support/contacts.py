"""Helpers for tests of contacts: preparing them, and reading the database after a write."""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import select

from app.addresses import AddressKind
from app.clock import now
from app.contacts import suppress
from app.db.models import Event, TriggerFiring, Unsubscriber, Webhook
from tests.support.tenants import Tenant, unique

ContactEvent = tuple[str, int, int]
"""Event, list id, contact id."""


def contacts_path(list_id: int) -> str:
    """The path of a list's contacts."""
    return f"/v1/lists/{list_id}/contacts"


def find(tenant: Tenant, list_id: int, **filters: Any) -> list[dict[str, Any]]:
    """The contacts that match the filters."""
    response = tenant.api.get(contacts_path(list_id), filters)
    assert response.status_code == 200, response.text
    contacts: list[dict[str, Any]] = response.get_json()["_embedded"]["contacts"]
    return contacts


def contact(tenant: Tenant, list_id: int, contact_id: int) -> dict[str, Any]:
    """One contact as the API shows it."""
    response = tenant.api.get(f"{contacts_path(list_id)}/{contact_id}")
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.get_json()
    return body


def count(tenant: Tenant, list_id: int, **filters: Any) -> int:
    """The number of contacts that match the filters."""
    size: int = tenant.api.get(contacts_path(list_id), {**filters, "limit": 0}).get_json()["size"]
    return size


def add_webhook(tenant: Tenant) -> None:
    """Gives the account a webhook, without which no event is written."""
    tenant.add(Webhook, url=f"https://{unique('hook')}.example/", creation_time=now(), due_time=now())


def events(tenant: Tenant) -> list[ContactEvent]:
    """The contact events of the account, in their order."""
    statement = select(Event.payload).where(Event.account_id == tenant.id).order_by(Event.id)
    with tenant.services.database.read() as session:
        payloads = [orjson.loads(text) for text in session.scalars(statement)]
    assert all(payload["object"] == "contact" for payload in payloads)
    return [(payload["event"], payload["list_id"], payload["id"]) for payload in payloads]


def firings(tenant: Tenant) -> list[ContactEvent]:
    """The triggers of the account that fired, in their order."""
    statement = select(TriggerFiring).where(TriggerFiring.account_id == tenant.id).order_by(TriggerFiring.id)
    with tenant.services.database.read() as session:
        return [(row.action, row.list_id, row.contact_id) for row in session.scalars(statement)]


def entries(tenant: Tenant) -> set[tuple[str, str, int | None]]:
    """The account's unsubscribers list: (kind, address, list id or None)."""
    statement = select(Unsubscriber).where(Unsubscriber.account_id == tenant.id)
    with tenant.services.database.read() as session:
        return {(row.kind, row.address, row.list_id) for row in session.scalars(statement)}


def unsubscribe(tenant: Tenant, address: str, list_id: int | None = None, kind: AddressKind = "email") -> int:
    """Unsubscribes the address as a link or the command line does."""
    with tenant.services.database.write() as transaction:
        return suppress.unsubscribe(transaction, tenant.id, kind, address, list_id)


def resubscribe(tenant: Tenant, address: str, list_id: int | None = None, kind: AddressKind = "email") -> int:
    """Resubscribes an address as the command line does."""
    with tenant.services.database.write() as transaction:
        return suppress.resubscribe(transaction, tenant.id, kind, address, list_id)


def block(tenant: Tenant, address: str, kind: AddressKind = "email") -> None:
    """Blocks the address as a permanent bounce does."""
    with tenant.services.database.write() as transaction:
        suppress.block(transaction, tenant.id, kind, address, "bounce")


def unblock(tenant: Tenant, address: str, kind: AddressKind = "email") -> bool:
    """Unblocks an address as the command line does."""
    with tenant.services.database.write() as transaction:
        return suppress.unblock(transaction, tenant.id, kind, address)
