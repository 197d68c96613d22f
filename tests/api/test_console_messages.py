"""Searching messages in the console, and one message with what to do about it (docs/console-messages.md#messages)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sqlalchemy import select, update
from werkzeug.test import TestResponse

from app.clock import now, this_second
from app.console.messages import FRESH_FOR
from app.contacts.suppress import block, unsubscribe
from app.db.models import Account, AuditEntry, BlockedAddress, QueueEntry, Recipient, RecipientStep, Unsubscriber
from tests.support.browser import operator, signed_in, words
from tests.support.cases import each
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email

PATH = "/console/messages"
SCRIPT = "<script>alert(1)</script>"


def send(sends: SendsApi, address: str) -> str:
    """Sends to an address; returns the uuid."""
    answer = sends.tenant.api.post("/v1/transactional-sends", sends.email(recipients=[{"email": address}]))
    assert answer.status_code == 202, answer.text
    return str(answer.get_json()["_embedded"]["recipients"][0]["uuid"])


def settle(tenant: Tenant, uuid: str, state: str, reason: str | None = None, detail: str | None = None) -> None:
    """The outcome of a message, as if a sender had written it."""
    with tenant.services.database.write() as transaction:
        recipient = transaction.scalars(select(Recipient).where(Recipient.uuid == uuid)).one()
        transaction.delete(transaction.get_one(QueueEntry, recipient.id))
        recipient.state, recipient.reason, recipient.sent_time = state, reason, now()
        owner = {"account_id": tenant.id, "recipient_id": recipient.id}
        transaction.add(RecipientStep(**owner, time=now(), step=state, detail=detail))


def open_in(tenant: Tenant, uuid: str, country: str) -> None:
    """The step of an open in that country."""
    with tenant.services.database.write() as transaction:
        recipient = transaction.scalars(select(Recipient).where(Recipient.uuid == uuid)).one()
        owner = {"account_id": tenant.id, "recipient_id": recipient.id}
        transaction.add(RecipientStep(**owner, time=now(), step="opened", country=country))


def query_of(answer: TestResponse) -> list[tuple[str, str]]:
    """The address to which a form leads."""
    assert answer.status_code == 303, answer.text
    location = urlsplit(answer.headers["Location"])
    assert location.path == PATH
    return parse_qsl(location.query)


def acts(tenant: Tenant) -> list[str]:
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object.in_(("recipient", "suppression"))
        return list(session.scalars(select(AuditEntry.action).where(*criteria).order_by(AuditEntry.id)))


@each(
    ("form", "query"),
    [
        ("find=ann@example.com&state=&from=&to=", [("email", "ann@example.com")]),
        ("find=%2B61 400 000 001", [("mobile", "61400000001")]),
        ("find=0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10", [("uuid", "0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10")]),
        (
            "state=failed&from=2026-01-01&to=2026-01-31",
            [("state", "failed"), ("creation_time:in", "2026-01-01..2026-01-31")],
        ),
        ("group_id=5&limit=0&offset=9&fields=id", [("group_id", "5")]),
    ],
)
def test_a_form_leads_to_its_query(tenant: Tenant, form: str, query: list[tuple[str, str]]) -> None:
    assert query_of(signed_in(tenant).get(f"{PATH}?{form}")) == query


def test_a_search_finds_by_address_state_and_uuid(tenant: Tenant, sends: SendsApi) -> None:
    ann, bob = new_email("ann"), new_email("bob")
    uuid_of_ann, uuid_of_bob = send(sends, ann), send(sends, bob)
    settle(tenant, uuid_of_bob, "failed", "blocked")
    browser = signed_in(tenant)
    for query, listed, other in (
        (f"email={ann}", ann, bob),
        ("state=failed", bob, ann),
        (f"uuid={uuid_of_ann}", ann, bob),
    ):
        page = browser.get(f"{PATH}?{query}").text
        assert listed in page
        assert other not in page.replace(query, "")
    assert 'hx-trigger="every 3s"' in browser.get(PATH).text, "it is live while something is sent"
    assert 'hx-trigger="every' not in browser.get(f"{PATH}?state=failed").text
    assert "No message matches." in words(browser.get(f"{PATH}?email=nobody@example.com"))


def test_pages_follow_each_other_by_cursors(tenant: Tenant, sends: SendsApi) -> None:
    people = [{"email": new_email()} for _ in range(60)]
    assert tenant.api.post("/v1/transactional-sends", sends.email(recipients=people)).status_code == 202
    browser, path, listed = signed_in(tenant), PATH, []
    while path:
        page = browser.get(path).text
        listed += [recipient["email"] for recipient in people if f">{recipient['email']}<" in page]
        older = [part for part in page.split('<a href="') if 'rel="next"' in part[:400]]
        path = older[0].split('"')[0].replace("&amp;", "&") if older else ""
        assert "offset" not in path
    assert sorted(listed) == sorted(recipient["email"] for recipient in people)
    head, *rows = csv.reader(io.StringIO(browser.get(f"{PATH}.csv").text))
    assert len(rows) == 60
    assert {row[head.index("email")] for row in rows} == {recipient["email"] for recipient in people}
    assert acts(tenant) == ["recipient.exported"]


@each("level", ["report", "limited"])
def test_who_may_not_see_contacts_sees_no_address(tenant: Tenant, sends: SendsApi, level: str) -> None:
    address = new_email("hidden")
    uuid = send(sends, address)
    settle(tenant, uuid, "bounced", f"550 no {address}", f"550 no {address}")
    open_in(tenant, uuid, "AU")
    browser = signed_in(tenant, level)
    for path in (PATH, f"{PATH}/{uuid}", f"{PATH}.csv"):
        text = browser.get(path).text
        assert uuid in text
        assert address not in text
        assert "550 no" not in text
        assert "Australia" not in text
    assert browser.get(f"{PATH}?email={address}").status_code == 403


def test_a_message_says_why_it_failed_and_is_solved_in_place(tenant: Tenant, sends: SendsApi) -> None:
    address = new_email()
    uuid = send(sends, address)
    with tenant.services.database.write() as transaction:
        block(transaction, tenant.id, "email", address, "blocked by hand")
        unsubscribe(transaction, tenant.id, "email", address, sends.list_id)
    settle(tenant, uuid, "failed", "blocked", "blocked")
    browser = signed_in(tenant)
    page = words(browser.get(f"{PATH}/{uuid}"))
    assert "because its address was blocked" in page
    assert "Unblock address Resubscribe address" in page
    assert "Retry" not in page
    assert "suppressions unblock" not in page, "a tenant has no command line"
    assert f"suppressions unblock {address}" in words(operator(tenant.app).get(f"{PATH}/{uuid}"))
    refused = browser.post(f"{PATH}/{uuid}/retry")
    assert refused.status_code == 409
    assert "is blocked; unblock it first" in words(refused)
    for action in ("unblock", "unblock", "resubscribe"):
        assert browser.confirm(f"{PATH}/{uuid}/{action}").headers["Location"] == f"{PATH}/{uuid}"
    with tenant.services.database.read() as session:
        for model in (BlockedAddress, Unsubscriber):
            assert session.scalars(select(model).where(model.account_id == tenant.id)).all() == []
    assert "Nothing blocks it now. Retry it: Retry" in words(browser.get(f"{PATH}/{uuid}"))
    assert browser.post(f"{PATH}/{uuid}/retry").status_code == 303
    page = words(browser.get(f"{PATH}/{uuid}"))
    assert "queued" in page
    assert "requeued" in page
    assert acts(tenant) == ["suppression.removed", "suppression.removed", "recipient.retried"]


def test_a_scheduled_message_says_when_it_leaves_and_is_cancelled(tenant: Tenant, sends: SendsApi) -> None:
    send_at = this_second() + timedelta(days=1)
    uuid = sends.send(sends.email(send_at=send_at.isoformat())).uuids[0]
    browser = signed_in(tenant)
    page = words(browser.get(f"{PATH}/{uuid}"))
    assert "It is scheduled for" in page
    assert "Cancel message" in page
    assert " scheduled for " in words(browser.get(f"{PATH}?state=scheduled"))
    assert browser.confirm(f"{PATH}/{uuid}/cancel").headers["Location"] == f"{PATH}/{uuid}"
    page = words(browser.get(f"{PATH}/{uuid}"))
    assert "because it was cancelled before it was sent (cancelled)" in page
    assert "Cancel message" not in page
    assert "Retry" not in page
    assert acts(tenant) == ["recipient.cancelled"]
    refused = browser.confirm(f"{PATH}/{sends.send(sends.email()).uuids[0]}/cancel")
    assert refused.status_code == 303


def test_replies_of_servers_and_names_never_become_markup(tenant: Tenant, sends: SendsApi) -> None:
    uuid = send(sends, new_email())
    settle(tenant, uuid, "bounced", f"550 {SCRIPT}", f"550 {SCRIPT}")
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == tenant.id).values(name=SCRIPT + tenant.name))
    for browser in (signed_in(tenant), operator(tenant.app)):
        for path in (f"{PATH}?account={tenant.id}", f"{PATH}/{uuid}", f"{PATH}?uuid={SCRIPT}&account={tenant.id}"):
            text = browser.get(path, follow_redirects=True).text
            assert "&lt;script&gt;" in text
            assert "<script>" not in text


def test_the_timeline_says_in_which_country_a_message_was_opened(tenant: Tenant, sends: SendsApi) -> None:
    uuid = send(sends, new_email())
    settle(tenant, uuid, "delivered")
    open_in(tenant, uuid, "AU")
    assert re.search(r"opened in Australia \d", words(signed_in(tenant).get(f"{PATH}/{uuid}")))


def test_names_of_the_installation_are_hidden_from_tenants(tenant: Tenant, sends: SendsApi) -> None:
    uuid = send(sends, new_email())
    settle(tenant, uuid, "bounced", "550 by mx.internal", "550 by mx.internal")
    assert "mx.internal" not in signed_in(tenant).get(f"{PATH}/{uuid}").text
    assert "mx.internal" in operator(tenant.app).get(f"{PATH}/{uuid}").text


def test_a_page_takes_as_many_statements_for_many_messages_as_for_one(
    tenant: Tenant, sends: SendsApi, count_statements: Callable[[], Any]
) -> None:
    browser = signed_in(tenant)

    def statements() -> list[str]:
        with count_statements() as counter:
            assert browser.get(PATH).status_code == 200
        return [statement for statement in counter.statements if statement.startswith("SELECT")]

    send(sends, new_email())
    few = statements()
    tenant.api.post("/v1/transactional-sends", sends.email(recipients=[{"email": new_email()} for _ in range(30)]))
    many = statements()
    assert len(few) == len(many) == 4
    assert not [statement for statement in many if "count(" in statement.lower()]


def test_a_message_is_renewed_soon_before_its_outcome_and_less_often_for_an_hour(
    tenant: Tenant, sends: SendsApi
) -> None:
    uuid, browser = send(sends, new_email()), signed_in(tenant)
    assert 'hx-trigger="every 3s"' in browser.get(f"{PATH}/{uuid}").text
    settle(tenant, uuid, "delivered")
    assert 'hx-trigger="every 10s"' in browser.get(f"{PATH}/{uuid}").text
    with tenant.services.database.write() as transaction:
        long_ago = update(Recipient).where(Recipient.uuid == uuid).values(sent_time=now() - FRESH_FOR)
        transaction.execute(long_ago)
    assert "hx-trigger" not in browser.get(f"{PATH}/{uuid}").text


def test_times_in_sentences_are_times_for_the_script_and_the_rest_is_text(tenant: Tenant, sends: SendsApi) -> None:
    uuid = send(sends, new_email())
    settle(tenant, uuid, "bounced", f"550 {SCRIPT} until 2026-01-02T03:04:05Z")
    page = signed_in(tenant).get(f"{PATH}/{uuid}").text
    explained = page.split('class="explained"')[1].split("</section>")[0]
    assert "550 &lt;script&gt;" in explained
    assert 'until <time datetime="2026-01-02T03:04:05Z" title="2026-01-02 03:04:05 UTC">' in explained
