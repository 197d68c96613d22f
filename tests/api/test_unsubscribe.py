"""The page behind an opt-out link (docs/unsubscribing.md)."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import select, update
from werkzeug.test import TestResponse

from app.accounts.accounts import update_account
from app.clock import now
from app.contacts.delete import delete_list
from app.db.models import Account, Contact, Unsubscriber
from app.lists.find import get_list
from app.tracking.feedback_channels import unsubscribe_link
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


def test_a_message_whose_list_is_gone_unsubscribes_from_the_account(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """The person wishes no such messages any more; nothing else tells which ones these are."""
    mobile, list_id = new_mobile(), rows.add_list()
    (recipient_id,) = rows.add_send([mobile], type="sms", list_id=list_id)
    with tenant.services.database.write() as transaction:
        delete_list(transaction, get_list(transaction, tenant.id, list_id))
    assert tenant.name in anon.get(path_of(tenant, recipient_id)).text
    anon.request("POST", path_of(tenant, recipient_id))
    assert entries(tenant) == [("mobile", mobile, None)]


def test_a_recipient_by_contact_id_has_the_address_of_the_contact(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """The address is that of the contact even before the outcome is written, while the recipient's row has no
    address."""
    mobile, list_id = new_mobile(), rows.add_list()
    contact_id = rows.add_contact(list_id, None, mobile)
    (recipient_id,) = rows.add_send([{"contact_id": contact_id}], type="sms", list_id=list_id)
    anon.request("POST", path_of(tenant, recipient_id))
    assert entries(tenant) == [("mobile", mobile, list_id)]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_invalid_link_shows_a_page(app: Flask, tenant: Tenant, anon: Client, method: str) -> None:
    """The link is forged or changed, or its recipient was deleted."""
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


def test_what_the_link_did_can_be_undone(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """The page offers it; the contact is subscribed as before, with an event and a step. The count of the group stays,
    and the link works again."""
    mobile, list_id = new_mobile(), rows.add_list()
    contact_id = rows.add_contact(list_id, None, mobile)
    rows.add_webhook()
    (recipient_id,) = rows.add_send([{"mobile": mobile, "contact_id": contact_id}], type="sms", list_id=list_id)
    path = path_of(tenant, recipient_id)
    assert f'action="{path}/undo"' not in anon.get(path).text
    assert f'<form method="post" action="{path}/undo">' in anon.request("POST", path).text

    undone = anon.request("POST", f"{path}/undo")
    assert (undone.status_code, undone.headers["Cache-Control"]) == (200, "no-store")
    assert "<title>You are subscribed again</title>" in undone.text
    assert entries(tenant) == []
    assert [json.loads(payload)["event"] for payload in rows.payloads()] == ["updated", "updated"]
    assert [step for step, _ in rows.steps(recipient_id)] == ["unsubscribed", "resubscribed"]

    anon.request("POST", path)
    assert entries(tenant) == [("mobile", mobile, list_id)]
    assert [step for step, _ in rows.steps(recipient_id)] == ["unsubscribed", "resubscribed", "unsubscribed"]
    assert rows.group_of(recipient_id).unsubscribed == 1


def test_undoing_needs_a_post(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """Programs that look at links change nothing."""
    (recipient_id,) = rows.add_send([new_mobile()], type="sms", list_id=rows.add_list())
    anon.request("POST", path_of(tenant, recipient_id))
    refused = anon.get(f"{path_of(tenant, recipient_id)}/undo")
    assert (refused.status_code, refused.mimetype) == (405, "text/html")
    assert len(entries(tenant)) == 1


def _undo(tenant: Tenant, anon: Client, recipient_id: int) -> None:
    page = anon.request("POST", f"{path_of(tenant, recipient_id)}/undo")
    assert (page.status_code, "<title>You are unsubscribed</title>" in page.text) == (200, True)
    assert "/undo" not in page.text


def test_undoing_ends_after_an_hour(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """The mail with the link may be with somebody else after an hour."""
    mobile, list_id = new_mobile(), rows.add_list()
    (recipient_id,) = rows.add_send([mobile], type="sms", list_id=list_id)
    anon.request("POST", path_of(tenant, recipient_id))
    with tenant.services.database.write() as transaction:
        earlier = update(Unsubscriber).where(Unsubscriber.account_id == tenant.id)
        transaction.execute(earlier.values(creation_time=now() - timedelta(minutes=61)))
    _undo(tenant, anon, recipient_id)
    assert entries(tenant) == [("mobile", mobile, list_id)]


def test_undoing_leaves_what_else_unsubscribed_the_address(tenant: Tenant, rows: Rows, anon: Client) -> None:
    """An entry that was there before the link was used, and one for the whole account."""
    number, other, list_id = new_mobile(), new_mobile(), rows.add_list()
    first, second, third = rows.add_send([number, other, other], type="sms", list_id=list_id)
    (own_id,) = rows.add_send([other], type="sms")
    anon.request("POST", path_of(tenant, first))
    with tenant.services.database.write() as transaction:
        earlier = update(Unsubscriber).where(Unsubscriber.account_id == tenant.id)
        transaction.execute(earlier.values(creation_time=now() - timedelta(minutes=2)))
    (again,) = rows.add_send([number], type="sms", list_id=list_id)
    anon.request("POST", path_of(tenant, again))
    _undo(tenant, anon, again)

    anon.request("POST", path_of(tenant, own_id))
    anon.request("POST", path_of(tenant, second))
    _undo(tenant, anon, second)
    _undo(tenant, anon, third)
    assert sorted(entries(tenant), key=str) == sorted(
        [("mobile", number, list_id), ("mobile", other, list_id), ("mobile", other, None)], key=str
    )


@pytest.mark.parametrize(
    ("preferred", "language_and_title"),
    [
        ("de-AT, en;q=0.5", ("de", "Abmelden?")),
        ("fr", ("fr", "Se désabonner ?")),
        ("pt, de;q=0, es;q=0.9", ("es", "¿Darse de baja?")),
        ("pt", ("en", "Unsubscribe?")),
        ("", ("en", "Unsubscribe?")),
    ],
)
def test_the_page_has_the_language_of_the_browser(
    tenant: Tenant, rows: Rows, anon: Client, preferred: str, language_and_title: tuple[str, str]
) -> None:
    """The first of its languages that there is, else English. Values stand in the texts, escaped."""
    language, title = language_and_title
    (recipient_id,) = rows.add_send([mobile := new_mobile()], type="sms", list_id=rows.add_list("<b>Shop"))
    page = anon.get(path_of(tenant, recipient_id), headers={"Accept-Language": preferred})
    assert (page.headers["Content-Language"], page.headers["Vary"]) == (language, "Accept-Language")
    assert f'<html lang="{language}">' in page.text
    assert f"<title>{title}</title>" in page.text
    assert f"<strong>{mobile}</strong>" in page.text
    assert "&lt;b&gt;Shop" in page.text


def test_errors_have_the_language_of_the_browser(anon: Client) -> None:
    """A link that does not exist is refused in the language of the browser, and so is a request that no link makes."""
    german = {"Accept-Language": "de"}
    assert "Dieser Link funktioniert nicht" in anon.get("/u/nonsense", headers=german).text
    assert "Dieser Link funktioniert nicht" in anon.get("/c/nonsense", headers=german).text
    refused = anon.request("DELETE", "/u/nonsense", headers=german)
    assert (refused.status_code, refused.headers["Content-Language"]) == (405, "de")
    assert "<h1>Das ist hier nicht möglich.</h1>" in refused.text


@pytest.mark.parametrize(("colour", "text_colour"), [("#0A66C2", "#ffffff"), ("#ffe066", "#000000")])
def test_the_page_has_the_brand_of_the_account(
    tenant: Tenant, rows: Rows, anon: Client, colour: str, text_colour: str
) -> None:
    """The page shows the brand's name, escaped. Its colour is in a style that the policy allows, with a text colour
    that can be read on it."""
    with tenant.services.database.write() as transaction:
        account = transaction.get_one(Account, tenant.id)
        update_account(transaction, account, {"brand_name": " Müller & Co ", "brand_colour": colour})
    (recipient_id,) = rows.add_send([new_mobile()], type="sms")
    page = anon.get(path_of(tenant, recipient_id))
    assert '<header class="brand">Müller &amp; Co</header>' in page.text
    assert "will get no more messages from Müller &amp; Co." in page.text
    styles = re.findall(r"<style>(.*?)</style>", page.text, re.DOTALL)
    assert styles[1] == f":root {{ --brand: {colour.lower()}; --on-brand: {text_colour}; }}"
    for style in styles:
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in page.headers["Content-Security-Policy"]
