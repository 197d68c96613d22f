"""Forms of the console offer what can be chosen by its name, and pages show names in place of ids
(docs/console.md#searching)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import delete

from app.audit.record import Act, record
from app.console.offers import MAX_OFFERED
from app.db.models import Group, SendPause, Webhook
from app.ids import shown_id
from tests.support.browser import HOME, Browser, linked, operator, signed_in, words
from tests.support.cases import each
from tests.support.console_pages import Estate, private_pages
from tests.support.rows import Rows
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email, unique

WEBHOOKS = f"{HOME}/webhooks"


def add_webhook(browser: Browser, **form: str | list[str]) -> int:
    """Registers a webhook by the form; returns its id."""
    answer = browser.post(WEBHOOKS, url=f"https://192.0.32.10/{unique()}", **form)
    assert answer.status_code == 200, words(answer)
    (webhook_id,) = re.findall(rf'href="{WEBHOOKS}/(\d+)"', answer.text)
    return int(webhook_id)


def choice_of(tenant: Tenant, webhook_id: int) -> list[int] | None:
    with tenant.services.database.read() as session:
        return session.get_one(Webhook, webhook_id).chosen_lists


def offered(browser: Browser, path: str) -> dict[str, tuple[int, bool]]:
    """Name of each list that the form of the page offers -> its id, and whether it is chosen."""
    boxes = re.findall(r'name="list_id" value="(\d+)"( checked)?> ([^<]+)<', browser.get(path).text)
    return {name: (int(id_), bool(mark)) for id_, mark, name in boxes}


def test_the_lists_of_a_webhook_are_chosen_by_name(tenant: Tenant, other_tenant: Tenant) -> None:
    first, second, browser = tenant.add_list("<b>First"), tenant.add_list("Second"), linked(tenant)
    other_tenant.add_list("Theirs")
    assert offered(browser, WEBHOOKS) == {"Second": (second, False), "&lt;b&gt;First": (first, False)}
    webhook_id = add_webhook(browser, list_id=[str(first)])
    path = f"{WEBHOOKS}/{webhook_id}"
    assert choice_of(tenant, webhook_id) == [first]
    assert offered(browser, path) == {"&lt;b&gt;First": (first, True), "Second": (second, False)}
    assert browser.post(f"{path}/choice", list_id=[str(first), str(second)]).status_code == 303
    assert choice_of(tenant, webhook_id) == [first, second]
    assert browser.post(f"{path}/choice").status_code == 303
    assert choice_of(tenant, webhook_id) is None


def test_a_refused_form_keeps_the_choice(tenant: Tenant) -> None:
    list_id, browser = tenant.add_list("Kept"), linked(tenant)
    refused = browser.post(WEBHOOKS, url="ftp://hooks.example/", list_id=str(list_id))
    assert refused.status_code == 422
    assert f'name="list_id" value="{list_id}" checked' in refused.text


@each("wrong", ["", "x", "0", "\0", "-1", "9" * 18, "9" * 40, str(2**63), "<b>"])
def test_a_list_that_is_not_there_is_refused(tenant: Tenant, wrong: str) -> None:
    browser = linked(tenant)
    for path in (WEBHOOKS, f"{WEBHOOKS}/{add_webhook(browser)}/choice"):
        answer = browser.post(path, url=f"https://192.0.32.10/{unique()}", list_id=wrong)
        assert (answer.status_code, "the account has no list" in words(answer)) == (422, True), path
        assert "<b>" not in answer.text


def test_a_list_of_another_account_is_refused(tenant: Tenant, other_tenant: Tenant) -> None:
    answer = linked(tenant).post(WEBHOOKS, url="https://192.0.32.10/in", list_id=str(other_tenant.add_list()))
    assert (answer.status_code, "the account has no list" in words(answer)) == (422, True)


def test_a_chosen_list_that_was_deleted_is_named_so(tenant: Tenant) -> None:
    list_id, browser = tenant.add_list("Gone"), linked(tenant)
    path = f"{WEBHOOKS}/{add_webhook(browser, list_id=str(list_id))}"
    assert browser.confirm(f"{HOME}/lists/{list_id}/delete", confirmation="Gone").status_code == 303
    assert offered(browser, path) == {f"{list_id} (deleted)": (list_id, True)}
    assert f"Lists {list_id} (deleted)" in words(browser.get(path))


def test_of_very_many_lists_the_newest_are_offered_with_those_that_are_chosen(tenant: Tenant) -> None:
    rows, browser = Rows(tenant.services, tenant.id), linked(tenant)
    oldest = rows.add_list("Oldest")
    other = rows.add_list("Other")
    for number in range(MAX_OFFERED):
        rows.add_list(f"List {number}")
    names = offered(browser, WEBHOOKS)
    assert (len(names), "Oldest" in names) == (MAX_OFFERED, False)
    webhook_id = add_webhook(browser, lists=f"Oldest\n{shown_id(other)}\n")
    assert choice_of(tenant, webhook_id) == [oldest, other]
    names = offered(browser, f"{WEBHOOKS}/{webhook_id}")
    assert (len(names), names["Oldest"], names["Other"]) == (MAX_OFFERED + 2, (oldest, True), (other, True))
    assert 'name="lists"' in browser.get(f"{WEBHOOKS}/{webhook_id}").text


def test_forms_that_take_one_list_or_group_offer_the_names_of_the_account_alone(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    tenant.add_list(name := unique("list"))
    other_tenant.add_list(theirs := unique("list"))
    message_id = tenant.add_message(name="Hello")
    query = f"?account={tenant.id}"
    for path in ("/suppressions", "/queues", "/domains", f"/stored-messages/{message_id}"):
        page = operator(tenant.app).get(HOME + path + query)
        assert re.search(rf'<datalist id="list-names">(?:<option value="[^"]*">)*<option value="{name}">', page.text), (
            path
        )
        assert ('list="list-names"' in page.text, theirs in page.text) == (True, False), path


def test_the_accounts_that_an_operator_may_pause_are_offered_by_name(tenant: Tenant) -> None:
    page = operator(tenant.app).get(f"{HOME}/queues").text
    assert re.search(r'name="account" [^>]*list="account-names"', page)
    assert '<datalist id="account-names"><option value="' in page


def test_held_messages_are_found_by_the_name_of_their_group(tenant: Tenant, other_tenant: Tenant) -> None:
    rows, browser = Rows(tenant.services, tenant.id), operator(tenant.app)
    ids = rows.add_send(["ann@example.com"])
    rows.change(ids, state="held", held_state="queued")
    group, theirs = rows.group_of(ids[0]), Rows(other_tenant.services, other_tenant.id).add_group()
    with tenant.services.database.read() as session:
        foreign = session.get_one(Group, theirs).name
    path = f"{HOME}/holds?account={tenant.id}"
    page = browser.get(path).text
    assert f'<option value="{group.id}">{group.name}</option>' in page
    assert f'group_id={group.id}&amp;account={tenant.id}">{group.name}</a>' in page
    assert foreign not in page
    page = browser.get(f"{path}&group_id={group.id}").text
    assert ("ann@example.com" in page, f'"{group.id}" selected>{group.name}<' in page) == (True, True)
    for wrong, status in (("0", 200), ("9" * 18, 200), (str(theirs), 200), ("x", 400), ("%00", 400)):
        answer = browser.get(f"{path}&group_id={wrong}")
        assert (answer.status_code, foreign in answer.text) == (status, False), wrong


def test_the_audit_log_names_accounts(tenant: Tenant) -> None:
    with tenant.services.database.write() as transaction:
        record(transaction, Act("list.created", tenant.id, object_id=5))
    browser, query = operator(tenant.app), f"account_id={tenant.id}"
    assert f'href="{HOME}/audit?{query}">Audit log</a>' in browser.get(f"{HOME}/accounts/{tenant.id}").text
    page = browser.get(f"{HOME}/audit?{query}")
    assert f'{query}">{tenant.name}</a>' in page.text
    assert f"Only entries of {tenant.name}." in words(page)
    (entry, *_) = re.findall(rf'href="({HOME}/audit/\d+)"', page.text)
    assert f"account {tenant.name}" in words(browser.get(entry))
    assert "Only entries of account 999999999 (deleted)." in words(browser.get(f"{HOME}/audit?account_id=999999999"))
    for wrong in ("x", "%00", "9" * 40):
        assert browser.get(f"{HOME}/audit?account_id={wrong}").status_code in (200, 400), wrong


def test_a_message_names_its_contact_by_the_address(tenant: Tenant) -> None:
    sends, address = SendsApi(tenant), new_email()
    contact_id = tenant.new_contact(sends.list_id, email=address)["id"]
    uuid = sends.send(sends.email(recipients=[{"contact_id": contact_id}])).uuids[0]
    browser, path = signed_in(tenant), f"{HOME}/messages/{uuid}"
    assert f'contacts/{contact_id}">{address}</a>' in browser.get(path).text
    browser.confirm(f"{HOME}/lists/{sends.list_id}/contacts/{contact_id}/delete")
    assert f"Contact {contact_id} (deleted)" in words(browser.get(path))


def test_a_bulk_action_names_what_its_query_is_about(tenant: Tenant) -> None:
    rows, browser = Rows(tenant.services, tenant.id), signed_in(tenant)
    ids = rows.add_send(["ann@example.com"])
    rows.change(ids, state="failed", reason="expired")
    group = rows.group_of(ids[0])
    page = browser.get(f"{HOME}/bulk-actions/preview?state=failed&group_id={group.id}")
    assert f"Only messages of the group “{group.name}”." in words(page)


@pytest.fixture
def estate(tenant: Tenant) -> Iterator[Estate]:
    yield Estate(tenant)
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(SendPause).where(SendPause.account_id == tenant.id))


def test_no_form_asks_for_an_id(app: Flask, estate: Estate) -> None:
    """A name is taken everywhere. The search of a page takes an id, too."""
    for page in private_pages(app):
        if page.method == "GET" and not page.is_file:
            answer = estate.sessions["operator"].get(f"{page.path(estate.ids)}?account={estate.tenant.id}")
            labels = re.findall(r"<label[^>]*>([^<]*)", answer.text if answer.mimetype == "text/html" else "")
            assert [text for text in labels if re.search(r"\bid\b", text) and "name" not in text.lower()] == [], page
