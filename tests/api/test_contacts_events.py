"""Events and automation triggers of contacts (docs/contacts.md#events-and-triggers)."""

from __future__ import annotations

import orjson
import pytest
from sqlalchemy import select

from app.db.models import Event
from tests.support.client import Client
from tests.support.contacts import (
    add_webhook,
    contacts_path,
    events,
    find,
    firings,
    resubscribe,
    unsubscribe,
)
from tests.support.tenants import Tenant, new_email, new_mobile


@pytest.fixture
def path(tenant: Tenant, customers: int) -> str:
    """The contacts of a list whose account has a webhook."""
    add_webhook(tenant)
    return contacts_path(customers)


def test_creating_causes_a_created_event(tenant: Tenant, path: str, customers: int) -> None:
    created = tenant.new_contact(customers, email=new_email(), subscribed={"email": False})
    with tenant.services.database.read() as session:
        payloads = [
            orjson.loads(text) for text in session.scalars(select(Event.payload).where(Event.account_id == tenant.id))
        ]
    assert payloads == [
        {
            "object": "contact",
            "event": "created",
            "id": created["id"],
            "list_id": customers,
            "timestamp": created["creation_time"],
        }
    ]
    assert firings(tenant) == [("created", customers, created["id"])]


def test_bulk_creation_causes_events_in_the_order_of_the_request(
    tenant: Tenant, api: Client, path: str, customers: int
) -> None:
    emails = [f"{letter}@example.com" for letter in "zaby"]
    api.post(path, {"contacts": [{"email": email} for email in emails]})
    by_email = {contact["email"]: contact["id"] for contact in find(tenant, customers)}
    expected = [("created", customers, by_email[email]) for email in emails]
    assert events(tenant) == firings(tenant) == expected


def test_updating_causes_an_updated_event(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    ids = [tenant.new_contact(customers, score=1)["id"] for _ in range(3)]
    api.patch(f"{path}/{ids[0]}", {"score": 2})
    api.patch(path, {"contacts": [{"id": ids[2], "score": 2}, {"id": ids[1]}, {"id": ids[0], "score": 3}]})
    expected = [("updated", customers, contact_id) for contact_id in (ids[0], ids[2], ids[0])]
    assert events(tenant)[3:] == firings(tenant)[3:] == expected


def test_an_update_without_a_change_causes_no_event(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    created = tenant.new_contact(customers, email=new_email(), score=1)
    for again in (
        {},
        {"score": 1},
        {"email": created["email"]},
        {"subscribed": {"email": True}},
        {"double_opt_in": False},
    ):
        assert api.patch(f"{path}/{created['id']}", again).status_code == 200
    assert len(events(tenant)) == len(firings(tenant)) == 1


def test_deleting_causes_a_deleted_event(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    ids = [tenant.new_contact(customers)["id"] for _ in range(3)]
    api.delete(f"{path}/{ids[1]}")
    api.delete(path, {"id:in": f"{ids[2]},{ids[1]},{ids[0]}"})
    assert events(tenant)[3:] == [("deleted", customers, contact_id) for contact_id in (ids[1], ids[0], ids[2])]
    assert len(firings(tenant)) == 3


def test_a_refused_request_causes_no_event(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    existing = tenant.new_contact(customers, email=new_email())
    api.post(path, {"contacts": [{"email": new_email()}, {"email": existing["email"]}]})
    api.patch(path, {"contacts": [{"id": existing["id"], "score": 1}, {"id": 999_999_999}]})
    assert len(events(tenant)) == len(firings(tenant)) == 1


def test_changing_a_shared_address_causes_an_event_for_every_contact(
    tenant: Tenant, api: Client, path: str, customers: int
) -> None:
    """All of them changed, but the request updated only the first: only its automations are triggered."""
    mobile = new_mobile()
    first, second = (tenant.new_contact(customers, email=new_email(), mobile=mobile)["id"] for _ in range(2))
    api.patch(f"{path}/{first}", {"subscribed": {"mobile": False}})
    assert events(tenant)[2:] == [("updated", customers, first), ("updated", customers, second)]
    assert firings(tenant)[2:] == [("updated", customers, first)]
    third = tenant.new_contact(customers, email=new_email(), mobile=mobile, subscribed={"mobile": True})["id"]
    assert events(tenant)[4:] == [
        ("created", customers, third),
        ("updated", customers, first),
        ("updated", customers, second),
    ]


def test_unsubscribing_by_link_is_an_update_without_trigger(tenant: Tenant, path: str, customers: int) -> None:
    email = new_email()
    contact_id = tenant.new_contact(customers, email=email)["id"]
    other_list = tenant.add_list()
    two = tenant.new_contact(other_list, email=email)["id"]
    for _ in range(2):
        unsubscribe(tenant, email)
    resubscribe(tenant, email, customers)
    assert events(tenant)[2:] == [
        ("updated", customers, contact_id),
        ("updated", other_list, two),
        ("updated", customers, contact_id),
    ]
    assert len(firings(tenant)) == 2


def test_events_go_to_webhooks_of_their_account_only(
    tenant: Tenant, other_tenant: Tenant, path: str, customers: int
) -> None:
    add_webhook(other_tenant)
    tenant.new_contact(customers)
    assert events(other_tenant) == []
