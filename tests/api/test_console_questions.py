"""The question before what cannot be undone (docs/console.md#questions)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import delete, select, update
from werkzeug.test import TestResponse

from app.db.models import (
    Account,
    ApiKey,
    AuditEntry,
    AutomationRun,
    Contact,
    Domain,
    SendPause,
    Transport,
    Unsubscriber,
)
from app.routing.routes import create_route, delete_route, find_route
from app.routing.transports import create_transport, delete_transport
from app.runs.pause import PAUSE_REASON
from tests.support.browser import HOME, Browser, linked, operator, signed_in, words
from tests.support.cases import each
from tests.support.console_pages import Estate, Page, private_pages
from tests.support.tenants import Tenant, unique

TIME = r"[\d:-]+ [\d:]+ UTC"
QUESTIONS = {
    "/automations/<automation_id>/runs/<run_id>/cancel": (
        r"Cancel this run of .+ for \S+@example\.com\? It is at the step message\. The next step has been due since .+ "
        r"Its contact gets no more messages from it\. This cannot be undone\. Go back Cancel run"
    ),
    "/domains/<domain_id>/delete": (
        r"Delete \S+\? New sends from this domain are refused\. .+ The DKIM keys are deleted\. "
        rf"Its last message was accepted at {TIME} \. 1 stored message has it as sender\. Go back Delete domain"
    ),
    "/keys/<key_id>/revoke": (
        r"Revoke the key [\w-]+\? It has not been used\. A use in the last minute may not be recorded yet\. "
        r"Requests with this key or its old tokens are refused at once\. You can undo this for 30 seconds\. "
        r"Go back Revoke key"
    ),
    "/keys/<key_id>/rotate": (
        r"Rotate the key [\w-]+ now\? It has not been used\. A use in the last minute may not be recorded yet\. "
        r"Requests with the old token are refused at once\. The next page shows the new token\. Go back "
        r"Rotate key"
    ),
    "/lists/<list_id>/contacts/<contact_id>/delete": (
        r"Delete \S+@example\.com from the list People\? Reports keep .+ Its runs of these automations end: “Welcome "
        r"gold customers”\. Go back Delete contact"
    ),
    "/lists/<list_id>/contacts/<contact_id>/subscription": (
        r"Unsubscribe \S+@example\.com\? It gets no more messages of the list People until it is resubscribed\. Go "
        r"back Unsubscribe address"
    ),
    "/lists/<list_id>/delete": (
        r"Delete People\? It has 1 contact\. Its automations: “Welcome gold customers”\. This also deletes its "
        r"contacts and automations\. .+ This cannot be undone\. Enter People to confirm Go back Delete list"
    ),
    "/messages/<uuid>/cancel": (
        r"Cancel this message\? It ends as failed, with the reason “cancelled”, and cannot be sent again\. Go back "
        r"Cancel message"
    ),
    "/messages/<uuid>/resubscribe": (
        r"Resubscribe \S+@example\.com\? The person has unsubscribed\. Do this only if they have asked for it\. Go "
        r"back Resubscribe address"
    ),
    "/messages/<uuid>/unblock": (
        r"Unblock \S+@example\.com\? New messages are sent to it\. .* Go back Unblock address"
    ),
    "/queues/pauses/<pause_id>/end": (
        rf"Resume mail to \S+\.example\? It has been paused since {TIME} by somebody\. 0 messages wait, to be "
        r"sent when you resume\. Go back Resume"
    ),
    "/senders/<sender_id>/delete": (
        r"Withdraw \d+\? New text messages from it are refused\. Waiting ones are retried until their retry period "
        r"ends\. None of the latest 1,000 sends is from it\. Go back Withdraw \d+"
    ),
    "/stored-messages/<message_id>/delete": (
        r"Delete Welcome\? New sends that refer to this message are refused\. Reports of earlier sends are kept\. No "
        r"message was sent with it\. These automations send it: “Welcome gold customers”\. Go back Delete stored "
        r"message"
    ),
    "/suppressions/<state>/<suppression_id>/remove": (
        rf"Unblock (\S+@example\.com)\? \1 has been blocked since {TIME} : x\. New messages are sent to it\. If its "
        r"mailbox does not exist, they bounce again\. Go back Unblock address"
    ),
    "/webhooks/<webhook_id>/delete": (
        rf"Delete the webhook at hooks\.example\? https://hooks\.example/\S+ The last delivery to it was at {TIME} : "
        r"delivered\. Its waiting events are not sent\. Go back Delete webhook"
    ),
    "/webhooks/<webhook_id>/remove-secret": (
        rf"Remove the secret k1\? It has signed requests since {TIME} \. Requests are no longer signed with it\. A "
        r"receiver that knows no other secret refuses them\. Go back Remove secret"
    ),
}
"""Path -> the page that asks, as people read it."""
FIELDS = {
    "/keys/<key_id>/rotate": {"overlap": "0"},
    "/lists/<list_id>/contacts/<contact_id>/subscription": {"kind": "email", "subscribed": "false"},
    "/webhooks/<webhook_id>/remove-secret": {"key_id": "k1"},
}
"""Path -> what its form says."""
ASK_AT_TIMES = {"/automations/<automation_id>/resume", "/queues/transports/<transport_name>"}
"""What asks only if something is lost, which tests below show."""
ASK_ON_THEIR_PAGES = {
    *("/bulk-actions", "/cancellations", "/holds", "/suppressions/unblock"),  # a preview, and 30 seconds to undo it
    *("/lists/<list_id>/import", "/suppressions/import"),  # a preview
    "/people/forget",  # the page of what is held, and the address is typed
}
UNDONE = {"/automations/<automation_id>/pause", "/queues/pauses"}
"""What holds at once, with a button that takes it back."""
UNDO = {"/bulk-actions/<action_id>/cancel", "/keys/<key_id>/restore"}
LOSE_NOTHING = {
    # They make something, which can be deleted.
    *("/accounts", "/domains", "/keys", "/lists", "/lists/<list_id>/contacts", "/lists/<list_id>/fields", "/senders"),
    *("/stored-messages", "/suppressions", "/webhooks", "/webhooks/<webhook_id>/rotate", "/domains/<domain_id>/rotate"),
    # They save a form, which warns before it is left edited, and can be saved again. Messages keep their versions.
    *("/accounts/<account_id>", "/domains/<domain_id>/hosts", "/keys/networks", "/lists/<list_id>"),
    "/keys/<key_id>/list",
    *("/lists/<list_id>/contacts/<contact_id>", "/stored-messages/<message_id>", "/webhooks/<webhook_id>/choice"),
    "/stored-messages/<message_id>/versions/<version_number>/restore",
    # They show or hand out something.
    *("/lists/<list_id>/import/preview", "/suppressions/preview", "/people/export", "/people/held"),
    *("/stored-messages/<message_id>/html", "/stored-messages/<message_id>/preview"),
    # They look something up, or send it again.
    *("/accounts/<account_id>/refresh", "/domains/<domain_id>/check", "/webhooks/<webhook_id>/check"),
    *("/messages/<uuid>/retry", "/stored-messages/<message_id>/test", "/webhooks/<webhook_id>/test"),
    *("/webhooks/<webhook_id>/deliveries/<delivery_id>/redeliver", "/webhooks/<webhook_id>/replay", "/sign-out"),
    "/roles",  # goes on with another role, and can go back
}


def test_every_form_of_the_console_asks_or_is_undone_or_loses_nothing(app: Flask) -> None:
    forms = sorted(page.rule.removeprefix(HOME) for page in private_pages(app) if page.method == "POST")
    assert forms == sorted([*QUESTIONS, *ASK_AT_TIMES, *ASK_ON_THEIR_PAGES, *UNDONE, *UNDO, *LOSE_NOTHING])


@pytest.fixture
def estate(tenant: Tenant) -> Iterator[Estate]:
    yield Estate(tenant)
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(SendPause).where(SendPause.account_id == tenant.id))


@each("rule", QUESTIONS)
def test_nothing_happens_before_the_question_is_answered(estate: Estate, rule: str) -> None:
    browser = linked(estate.tenant)
    path = Page("POST", HOME + rule, frozenset()).path(estate.ids)
    before = estate.rows()
    asked = browser.post(path, **FIELDS.get(rule, {}))
    assert (asked.status_code, estate.rows() == before) == (200, True)
    assert re.search(QUESTIONS[rule], words(asked)), words(asked)
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)">', asked.text))
    assert (f'action="{path}"' in asked.text, fields) == (True, {**FIELDS.get(rule, {}), "confirmed": "1"})


@each("answer", ["", "0", "yes"])
def test_only_the_answer_of_the_page_counts(estate: Estate, answer: str) -> None:
    path = f"{HOME}/keys/{estate.ids['key_id']}/revoke"
    assert linked(estate.tenant).post(path, confirmed=answer).status_code == 200
    with estate.tenant.services.database.read() as session:
        assert session.get_one(ApiKey, estate.ids["key_id"]).revoked_time is None


def test_with_the_answer_it_happens(estate: Estate) -> None:
    browser = linked(estate.tenant)
    assert browser.confirm(f"{HOME}/keys/{estate.ids['key_id']}/revoke").status_code == 303
    assert re.search(r"[\w-]+ was revoked\. Requests with this key are refused\.", words(browser.get(f"{HOME}/keys")))
    with estate.tenant.services.database.read() as session:
        assert session.get_one(ApiKey, estate.ids["key_id"]).revoked_time is not None


def test_what_is_not_there_is_not_asked_about(estate: Estate, other_tenant: Tenant) -> None:
    browser = linked(other_tenant)
    for rule in QUESTIONS:
        path = Page("POST", HOME + rule, frozenset()).path(estate.ids)
        assert browser.post(path, **FIELDS.get(rule, {})).status_code == 404, rule


def told(page: TestResponse) -> str:
    """The line that tells what was done."""
    (line,) = re.findall(r'<p role="status">(.*?)</p>', page.text)
    return str(line)


def undo(browser: Browser, page: TestResponse) -> TestResponse:
    """Presses the button that takes back what the page tells; returns the page after that."""
    form = re.search(
        r'<form method="post" action="([^"]+)">([^\n]*?)<button type="submit" class="quiet">Undo', page.text
    )
    assert form is not None
    answer = browser.post(form[1], **dict(re.findall(r'name="(\w+)" value="(\w+)"', form[2])))
    assert answer.status_code == 303, answer.text
    return browser.get(answer.headers["Location"])


def test_a_pause_of_an_automation_is_taken_back(estate: Estate) -> None:
    browser, path = linked(estate.tenant), f"{HOME}/automations/{estate.ids['automation_id']}"
    browser.post(f"{path}/pause")
    assert told(undo(browser, browser.get(path))) == "Welcome gold customers was resumed."
    assert acts_of(estate, "automation")[-2:] == ["automation.paused", "automation.resumed"]


def test_what_somebody_else_has_paused_is_not_taken_back(estate: Estate) -> None:
    path = f"{HOME}/automations/{estate.ids['automation_id']}"
    signed_in(estate.tenant).post(f"{path}/pause")
    browser = linked(estate.tenant)
    browser.post(f"{path}/pause")
    assert ">Undo<" not in browser.get(path).text


def test_a_pause_of_messages_is_taken_back(estate: Estate) -> None:
    browser = linked(estate.tenant)
    browser.post(f"{HOME}/queues/pauses", kind="domain", of=f"{unique()}.example")
    assert told(undo(browser, browser.get(f"{HOME}/queues"))) == "Sending was resumed."
    assert acts_of(estate, "pause") == ["pause.created", "pause.ended"]


def acts_of(estate: Estate, noun: str) -> list[str]:
    """The actions of the account about the noun, in the audit log."""
    entries = select(AuditEntry.action).where(AuditEntry.account_id == estate.tenant.id, AuditEntry.object == noun)
    with estate.tenant.services.database.read() as session:
        return list(session.scalars(entries.order_by(AuditEntry.id)))


@each(
    ("held", "said"),
    [
        ("send", "1 run is held. Their next steps are carried out now. They may send messages."),
        ("skip", "1 run is held. Their next messages, changes and calls are skipped. They are not carried out later."),
        ("shift", None),
    ],
)
def test_resuming_asks_if_runs_are_held_and_lose_something(estate: Estate, held: str, said: str | None) -> None:
    automation_id, browser = estate.ids["automation_id"], linked(estate.tenant)
    path = f"{HOME}/automations/{automation_id}"
    browser.post(f"{path}/pause")
    with estate.tenant.services.database.write() as transaction:
        run = update(AutomationRun).where(AutomationRun.automation_id == automation_id)
        transaction.execute(run.values(state="held", reason=PAUSE_REASON))
    answer = browser.post(f"{path}/resume", held=held)
    assert answer.status_code == (303 if said is None else 200)
    assert said is None or f"Resume Welcome gold customers? {said} Go back Resume automation" in words(answer)
    assert browser.confirm(f"{path}/resume", held=held).status_code == 303


def test_a_transport_is_disabled_after_a_question_that_names_who_uses_it(estate: Estate) -> None:
    name, route, tenant = unique("relay").lower(), unique("route"), estate.tenant
    values = {"name": name, "type": "email", "url": "smtp://relay.example:25", "accounts": [str(tenant.id)]}
    with tenant.services.database.write() as transaction:
        account_name = transaction.get_one(Account, tenant.id).name
        transport = create_transport(transaction, tenant.services.settings.secret_keys, values)
        create_route(transaction, {"name": route, "transports": [name], "account": str(tenant.id)})
    browser, path = operator(tenant.app), f"{HOME}/queues/transports/{name}"
    asked = words(browser.post(path, enabled="0"))
    assert (
        f"Disable {name}? These routes use it: “{route}”. Sends of these accounts may name it: “{account_name}”."
        in asked
    )
    assert browser.confirm(path, enabled="0").status_code == 303
    assert browser.post(path, enabled="1").status_code == 303
    with tenant.services.database.write() as transaction:
        delete_route(transaction, find_route(transaction, route))
        delete_transport(transaction, transaction.get_one(Transport, transport.id))


def test_who_opted_out_is_resubscribed_after_a_question_that_says_when_and_how(estate: Estate) -> None:
    """The same on the page of a contact, of a suppression and of a message."""
    tenant, ids, browser = estate.tenant, estate.ids, signed_in(estate.tenant)
    path = f"{HOME}/lists/{ids['list_id']}/contacts/{ids['contact_id']}"
    browser.confirm(f"{path}/subscription", kind="email", subscribed="false")
    with tenant.services.database.read() as session:
        address = session.get_one(Contact, ids["contact_id"]).email
        entry = session.scalars(select(Unsubscriber.id).where(Unsubscriber.account_id == tenant.id)).one()
    assert address is not None
    question = (
        rf"Resubscribe {address}\? {address} has been unsubscribed from the list People since {TIME} \. The person has "
        r"unsubscribed\. Do this only if they have asked for it\. Go back Resubscribe address"
    )
    by_contact = browser.post(f"{path}/subscription", kind="email", subscribed="true")
    by_entry = browser.post(f"{HOME}/suppressions/unsubscribed/{entry}/remove")
    for asked in (by_contact, by_entry):
        assert re.search(question, words(asked)), words(asked)
    browser.confirm(f"{HOME}/suppressions/unsubscribed/{entry}/remove")
    browser.post(f"{HOME}/suppressions", address=address, state="unsubscribed", list="People")
    asked = browser.post(f"{path}/subscription", kind="email", subscribed="true")
    assert re.search(rf"Last change: unsubscribed by [\w-]+ at {TIME} \.", words(asked)), words(asked)


@each("key_id", ["", "k9", "\0", "k" * 100_000, "9" * 40])
def test_a_secret_that_is_not_there_is_not_asked_about(estate: Estate, key_id: str) -> None:
    path = f"{HOME}/webhooks/{estate.ids['webhook_id']}/remove-secret"
    assert linked(estate.tenant).post(path, key_id=key_id).status_code == 422


@each("kind", ["", "mobile", "\0", "x" * 1000])
def test_an_address_that_a_contact_does_not_have_is_not_asked_about(estate: Estate, kind: str) -> None:
    path = f"{HOME}/lists/{estate.ids['list_id']}/contacts/{estate.ids['contact_id']}/subscription"
    for subscribed in ("true", "false", "\0"):
        assert linked(estate.tenant).post(path, kind=kind, subscribed=subscribed).status_code == 422


def test_the_uses_of_a_sender_are_of_its_own_account(estate: Estate, other_tenant: Tenant) -> None:
    """The neighbour stores messages and sends from the same domain."""
    with estate.tenant.services.database.write() as transaction:
        domain = transaction.get_one(Domain, estate.ids["domain_id"]).name
    other_tenant.add_message(name="Theirs", from_address=f"x@{domain}")
    path = f"{HOME}/domains/{estate.ids['domain_id']}/delete"
    browser = linked(estate.tenant)
    assert "1 stored message has it as sender." in words(browser.post(path))
    estate.tenant.add_message(name="Ours", from_address=f"X@{domain.upper()}")
    assert "2 stored messages have it as sender." in words(browser.post(path))


HARMFUL = re.compile(
    r"(block|unblock|unsubscribe|resubscribe|revoke|withdraw|delete|remove|end|forget|disable|rotate|stop)\b",
    re.IGNORECASE,
)
BUTTON = re.compile(r'<(?:button type="submit"|a [^>]*role="button")(?P<rest>[^>]*)>(?P<label>.*?)</(?:button|a)>')
OF_A_PREVIEW = {"/suppressions/unblock"}
"""Whoever is here has asked for just that, and can undo it for 30 seconds."""


def test_no_page_makes_a_harmful_act_its_primary_button(app: Flask, estate: Estate) -> None:
    browser, harmful, seen = estate.sessions["link"], [], set[str]()
    pages = [
        page for page in private_pages(app) if page.method == "GET" and page.rule.removeprefix(HOME) not in OF_A_PREVIEW
    ]
    answers = [(page.rule, browser.get(page.path(estate.ids))) for page in pages]
    for rule in QUESTIONS:
        path = Page("POST", HOME + rule, frozenset()).path(estate.ids)
        answers.append((rule, browser.post(path, **FIELDS.get(rule, {}))))
    for rule, answer in answers:
        for button in BUTTON.finditer(answer.text if answer.mimetype == "text/html" else ""):
            seen.add(button["label"])
            if 'class="quiet"' not in button["rest"] and HARMFUL.match(button["label"]):
                harmful.append((rule, button["label"]))
    assert harmful == []
    assert {"Go back", "Save", "Cancel run", "Delete list", "Revoke"} <= seen
