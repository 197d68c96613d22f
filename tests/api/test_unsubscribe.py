"""The page behind an opt-out link (docs/inbound.md#unsubscribing)."""

from __future__ import annotations

import json

import pytest
from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from app.db.models import Contact, Unsubscriber
from app.tracking.unsubscribe import unsubscribe_link
from tests.support.client import Client
from tests.support.races import meanwhile
from tests.support.rows import Rows
from tests.support.tenants import Tenant, new_mobile, unique


@pytest.fixture
def rows(tenant: Tenant) -> Rows:
    """Rows of the account."""
    return Rows(tenant.services, tenant.id)


def path_of(tenant: Tenant, recipient_id: int) -> str:
    settings = tenant.services.settings
    return unsubscribe_link(settings, recipient_id).removeprefix(settings.public_url)


def entries(tenant: Tenant) -> list[tuple[str, str, int | None]]:
    """The account's unsubscribers list."""
    columns = select(Unsubscriber.kind, Unsubscriber.address, Unsubscriber.list_id)
    with tenant.services.database.read() as session:
        rows = session.execute(columns.where(Unsubscriber.account_id == tenant.id))
        return [(kind, address, list_id) for kind, address, list_id in rows]


def test_only_post_unsubscribes(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """GET shows a page that asks for confirmation; POST unsubscribes from the list of the message."""
    name, mobile = unique("Customers"), new_mobile()
    list_id = rows.add_list(name)
    contact_id = rows.add_contact(list_id, None, mobile)
    rows.add_webhook()
    (recipient_id,) = rows.add_send([{"mobile": mobile, "contact_id": contact_id}], type="sms", list_id=list_id)
    path = path_of(tenant, recipient_id)

    asked = anon.get(path)
    assert (asked.status_code, asked.mimetype, asked.headers["Cache-Control"]) == (200, "text/html", "no-store")
    assert '<form method="post">' in asked.text
    assert "<title>Unsubscribe?</title>" in asked.text
    assert mobile in asked.text
    assert name in asked.text
    assert entries(tenant) == []

    done = anon.request("POST", path)
    assert (done.status_code, done.mimetype) == (200, "text/html")
    assert "<title>You are unsubscribed</title>" in done.text
    assert entries(tenant) == [("mobile", mobile, list_id)]
    assert rows.group_of(recipient_id).unsubscribed == 1
    assert [json.loads(payload)["event"] for payload in rows.payloads()] == ["updated"]


def test_a_second_click_changes_nothing(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """The group counts the recipient once, without a second event."""
    mobile, list_id = new_mobile(), rows.add_list()
    contact_id = rows.add_contact(list_id, None, mobile)
    rows.add_webhook()
    (recipient_id,) = rows.add_send([{"mobile": mobile, "contact_id": contact_id}], type="sms", list_id=list_id)
    for _ in range(2):
        assert anon.request("POST", path_of(tenant, recipient_id)).status_code == 200
    assert rows.group_of(recipient_id).unsubscribed == 1
    assert [step for step, _ in rows.steps(recipient_id)] == ["unsubscribed"]
    assert len(rows.payloads()) == 1


def test_unsubscribing_by_two_messages_counts_twice(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """The count of unsubscribed recipients may contain a contact repeatedly."""
    mobile, list_id, group_id = new_mobile(), rows.add_list(), rows.add_group("sms")
    for _ in range(2):
        (recipient_id,) = rows.add_send([mobile], type="sms", list_id=list_id, group_id=group_id)
        anon.request("POST", path_of(tenant, recipient_id))
    assert rows.group_of(recipient_id).unsubscribed == 2


def test_a_message_without_a_list_unsubscribes_from_the_account(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """The page names the account."""
    mobile = new_mobile()
    (recipient_id,) = rows.add_send([mobile], type="sms")
    assert tenant.name in anon.get(path_of(tenant, recipient_id)).text
    anon.request("POST", path_of(tenant, recipient_id))
    assert entries(tenant) == [("mobile", mobile, None)]


def test_a_recipient_by_contact_id_has_the_address_of_the_contact(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """Also before the outcome is written, while the row has no address."""
    mobile, list_id = new_mobile(), rows.add_list()
    contact_id = rows.add_contact(list_id, None, mobile)
    (recipient_id,) = rows.add_send([{"contact_id": contact_id}], type="sms", list_id=list_id)
    anon.request("POST", path_of(tenant, recipient_id))
    assert entries(tenant) == [("mobile", mobile, list_id)]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_invalid_link_shows_a_page(app: Flask, tenant: Tenant, anon: Client, method: str) -> None:
    """Forged, changed, or of a deleted recipient."""
    for path in ("/u/nonsense", "/u/AAAAAAAAAAAAAAAAAA", path_of(tenant, 999_999_999)):
        response = anon.request(method, path)
        assert (response.status_code, response.mimetype) == (404, "text/html")
        assert "This link does not work" in response.text


def test_the_page_escapes_names(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """The name of a list may contain anything."""
    list_id = rows.add_list(f"<script>{unique('x')}</script>")
    (recipient_id,) = rows.add_send([new_mobile()], type="sms", list_id=list_id)
    assert "<script>" not in anon.get(path_of(tenant, recipient_id)).text


def test_one_click_unsubscribing_works(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """RFC 8058: the POST of a mail program, without page, cookie or key."""
    address, list_id = f"{unique('Ann')}@Example.com", rows.add_list()
    contact_id = rows.add_contact(list_id, address)
    rows.add_webhook()
    (recipient_id,) = rows.add_send([{"email": address, "contact_id": contact_id}], list_id=list_id)
    done = anon.request("POST", path_of(tenant, recipient_id), data={"List-Unsubscribe": "One-Click"})
    assert done.status_code == 200
    assert entries(tenant) == [("email", address.lower(), list_id)]
    assert rows.group_of(recipient_id).unsubscribed == 1
    assert [json.loads(payload)["event"] for payload in rows.payloads()] == ["updated"]
    assert [step for step, _ in rows.steps(recipient_id)] == ["unsubscribed"]


def test_a_deadlock_of_a_click_and_an_update_is_resolved(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """The database aborts the click, and it is repeated. On SQLite it waits."""
    mobile, list_id = new_mobile(), rows.add_list(unique("Customers"))
    first, second = (rows.add_contact(list_id, None, mobile) for _ in range(2))
    (recipient_id,) = rows.add_send([{"mobile": mobile, "contact_id": first}], type="sms", list_id=list_id)
    clicks: list[TestResponse] = []
    with tenant.services.database.write() as transaction:
        lock_contact = select(Contact.id).with_for_update()
        transaction.execute(lock_contact.where(Contact.id == second))
        with meanwhile(tenant.services, lambda: clicks.append(anon.request("POST", path_of(tenant, recipient_id)))):
            transaction.execute(lock_contact.where(Contact.id == first))
            transaction.commit()
    assert [click.status_code for click in clicks] == [200]
    assert entries(tenant) == [("mobile", mobile, list_id)]
    assert rows.group_of(recipient_id).unsubscribed == 1
