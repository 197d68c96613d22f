"""Pausing and going on in the console (docs/console-messages.md#queues)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import select

from app.db.models import Account, AuditEntry, SendPause
from app.sends.pauses.pause import Subject, pause
from tests.support.browser import Browser, linked, operator, signed_in, words
from tests.support.rows import Rows, resume_all
from tests.support.tenants import Tenant, unique

PATH = "/console/queues"
PAUSES = f"{PATH}/pauses"


@pytest.fixture(autouse=True)
def nothing_paused(tenant: Tenant) -> Iterator[None]:
    resume_all(tenant.services)
    yield
    resume_all(tenant.services)


def active(tenant: Tenant) -> list[tuple[int | None, str, str | None]]:
    """What is paused."""
    columns = SendPause.account_id, SendPause.kind, SendPause.domain
    with tenant.services.database.read() as session:
        rows = session.execute(select(*columns).where(SendPause.resumed_time.is_(None)).order_by(SendPause.id))
        return [tuple(row) for row in rows]  # type: ignore[misc]


def paused(tenant: Tenant, account_id: int | None, **of: str) -> int:
    """A pause that somebody else has begun."""
    with tenant.services.database.write() as transaction:
        return pause(transaction, Subject(account_id, **of), "wrong prices").id  # type: ignore[arg-type]


def test_an_account_pauses_and_goes_on(tenant: Tenant) -> None:
    rows, browser = Rows(tenant.services, tenant.id), linked(tenant)
    list_id = rows.add_list(name := unique("list"))
    answer = browser.post(PAUSES, kind="list", of=name, reason="wrong <b>prices</b>")
    assert (answer.status_code, answer.headers["Location"]) == (303, PATH)
    with tenant.services.database.read() as session:
        pause_id = session.scalars(select(SendPause.id).where(SendPause.list_id == list_id)).one()
    (message,) = rows.add_send(["ann@people.example"], list_id=list_id)
    rows.change([message], state="paused", pause_id=pause_id)
    page = browser.get(PATH)
    assert f"the list {name}" in words(page)
    assert "wrong &lt;b&gt;prices&lt;/b&gt;" in page.text
    told = browser.get(f"/console/messages/{rows.recipient(message).uuid}")
    assert "paused" in words(told)
    assert f"The list {name} has been paused since" in words(told)
    assert f'href="{PATH}"' in told.text
    assert f"The list {name} has been paused since" in words(browser.get("/console"))
    assert browser.confirm(f"{PAUSES}/{pause_id}/end").headers["Location"] == PATH
    assert "resumed" in words(browser.get(PATH))
    assert browser.post(f"{PAUSES}/{pause_id}/end").status_code == 404
    with tenant.services.database.read() as session:
        criteria = AuditEntry.object == "pause", AuditEntry.account_id == tenant.id
        acts = session.scalars(select(AuditEntry.action).where(*criteria).order_by(AuditEntry.id)).all()
    assert acts == ["pause.created", "pause.ended"]


@pytest.mark.parametrize(("level", "is_seen"), [("report", False), ("standard", True)])
def test_only_who_sees_contacts_sees_why_something_is_paused(tenant: Tenant, level: str, is_seen: bool) -> None:
    paused(tenant, tenant.id)
    overview = words(signed_in(tenant, level).get("/console"))
    assert "The account has been paused since" in overview
    assert ("wrong prices" in overview) is is_seen


def test_operators_pause_any_account_and_a_domain_for_all(tenant: Tenant) -> None:
    browser = operator(tenant.app)
    browser.post(PAUSES, kind="account", account=tenant.name)
    browser.post(PAUSES, kind="domain", of="people.example", reason="for operators")
    assert active(tenant) == [(tenant.id, "account", None), (None, "domain", "people.example")]
    page = words(browser.get(PATH))
    assert f"{tenant.name} the account" in page
    assert "mail of all accounts to people.example" in page
    theirs = words(signed_in(tenant).get(PATH))
    assert "mail to people.example" in theirs
    assert "for operators" not in theirs
    answer = browser.post(f"{PAUSES}?account={tenant.id}", kind="domain", of="other.example")
    assert answer.headers["Location"] == f"{PATH}?account={tenant.id}"
    assert active(tenant)[-1] == (tenant.id, "domain", "other.example")


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({}, "Choose what to pause"),
        ({"kind": "list"}, "Enter the list."),
        ({"kind": "list", "of": "nothing <i>"}, "the account has no list"),
        ({"kind": "domain", "of": "people"}, "is not a domain name"),
        ({"kind": "account", "of": "people.example"}, "To pause all messages of the account, leave out people"),
        ({"kind": "account", "reason": "x" * 201}, "has more than 200 characters"),
    ],
)
def test_what_cannot_be_paused_is_said_with_the_form_as_it_was(tenant: Tenant, form: dict[str, str], said: str) -> None:
    answer = linked(tenant).post(PAUSES, **form)
    assert (answer.status_code, said in words(answer), "<i>" in answer.text) == (422, True, False)
    assert ('<details class="above" open>' in answer.text) is bool(form)
    assert active(tenant) == []


def test_only_who_may_manage_pauses_and_only_the_own_account(tenant: Tenant, other_tenant: Tenant) -> None:
    theirs = paused(tenant, other_tenant.id)
    everywhere = paused(tenant, None, domain="people.example")
    before = active(tenant)
    browser = linked(tenant)
    assert [browser.post(f"{PAUSES}/{pause_id}/end").status_code for pause_id in (theirs, everywhere, 0)] == [404] * 3
    assert other_tenant.name not in words(browser.get(PATH))
    assert active(tenant) == before
    browser.post(f"{PAUSES}?account={other_tenant.id}", kind="account", account=other_tenant.name)
    assert active(tenant) == [*before, (tenant.id, "account", None)], "the own account, whatever the form says"
    assert 'action="/console/queues/pauses' not in signed_in(tenant).get(PATH).text


def test_the_page_of_a_list_leads_to_the_form_with_its_list(tenant: Tenant) -> None:
    browser, list_id = linked(tenant), Rows(tenant.services, tenant.id).add_list()
    assert f'href="{PATH}?list={list_id}"' in browser.get(f"/console/lists/{list_id}").text
    assert f'name="of" value="{list_id}"' in browser.get(f"{PATH}?list={list_id}").text


def test_a_test_account_cannot_be_paused(tenant: Tenant, other_tenant: Tenant) -> None:
    with tenant.services.database.write() as transaction:
        transaction.get_one(Account, other_tenant.id).test_of = tenant.id
    browser: Browser = operator(tenant.app)
    path = f"?account={other_tenant.id}"
    assert PAUSES not in browser.get(f"{PATH}{path}").text
    assert browser.post(f"{PAUSES}{path}", kind="account").status_code == 409
