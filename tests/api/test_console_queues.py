"""The send queue in the console (docs/console-messages.md#queues)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from app.clock import now, timestamp
from app.console.queues import MAX_COUNT
from app.db.models import Account, AuditEntry, DomainBackoff, QueueEntry, RecipientStep, Transport
from app.routing.transports import create_transport, delete_transport, find_transport
from tests.support.browser import Browser, operator, signed_in, words
from tests.support.rows import Rows
from tests.support.servers import wait_until
from tests.support.tenants import Tenant, new_mobile, unique

PATH = "/console/queues"
DAY = 86_400
BUSY = "451 4.7.1 slow down"


@pytest.fixture
def rows(tenant: Tenant) -> Rows:
    """Rows of the account."""
    return Rows(tenant.services, tenant.id)


def add_step(rows: Rows, recipient_id: int, detail: str, note: str | None = None) -> None:
    """An attempt that was deferred."""
    with rows.services.database.write() as transaction:
        owner = {"account_id": rows.account_id, "recipient_id": recipient_id}
        transaction.add(RecipientStep(**owner, time=now(), step="deferred", detail=detail, note=note))


def add_entries(tenant: Tenant, number: int, **values: Any) -> None:
    """Entries without recipients, as of a backlog."""
    moment = now() - timedelta(days=2)
    shared = {"account_id": tenant.id, "state": "queued", "priority": "normal", "due_time": moment, "attempts": 0}
    with tenant.services.database.write() as transaction:
        for count in range(number):
            given = {"ready_time": now() + timedelta(days=1), **shared, **values}
            transaction.add(QueueEntry(recipient_id=-(tenant.id * 10_000 + count), **given))


@pytest.fixture
def backlog(tenant: Tenant) -> Iterator[None]:
    """More messages than are counted, long due."""
    add_entries(tenant, MAX_COUNT + 1)
    yield
    with tenant.services.database.write() as transaction:
        for entry in transaction.scalars(select(QueueEntry).where(QueueEntry.account_id == tenant.id)):
            transaction.delete(entry)


def test_an_account_sees_what_it_has_left(tenant: Tenant, rows: Rows) -> None:
    rows.add_send(["a@one.example", "b@one.example"], due_in=-90)
    rows.add_send(["c@one.example"], due_in=-3, priority="high")
    sending = rows.add_send(["d@one.example"], due_in=-5)
    rows.change(sending, state="sending", worker="w", lease_time=now() + timedelta(seconds=60))
    page = words(signed_in(tenant).get(PATH))
    assert re.search(r"Due 3, the oldest for 1 min 3\d s High priority 1 of them Sending 1 Deferred 0", page)
    assert "No messages are deferred." in page
    assert "No domain back-offs." in page


def test_deferred_messages_are_shown_by_domain_with_the_reason_and_the_next_try(tenant: Tenant, rows: Rows) -> None:
    list_id = rows.add_list()
    contact = rows.add_contact(list_id, email="kim@Two.example")
    first = rows.add_send(["a@one.example", "b@ONE.example"], due_in=120)
    (contact_recipient,) = rows.add_send([{"email": None, "contact_id": contact}], due_in=60, priority="high")
    rows.add_send([new_mobile()], type="sms", due_in=30)
    add_step(rows, first[0], "452 4.2.2 mailbox full")
    add_step(rows, first[1], BUSY, note="10.1.2.3: no route to host")
    page = signed_in(tenant).get(PATH)
    assert re.search(r"one\.example 2 .* UTC .* UTC 451 4\.7\.1 slow down text messages 1", words(page))
    assert re.search(r"two\.example 1 .* UTC .* UTC not attempted yet", words(page))
    assert "10.1.2.3" not in page.text, "what the installation knows is for operators"
    assert timestamp(rows.recipient(contact_recipient).due_time) in page.text
    assert "10.1.2.3: no route to host" in words(operator(tenant.app).get(f"{PATH}?account={tenant.id}"))


def test_back_offs_are_shown_until_they_end(tenant: Tenant) -> None:
    for domain, minutes in (("spared.example", 4), ("over.example", -1)):
        until = now() + timedelta(minutes=minutes)
        tenant.add(DomainBackoff, sender_domain=tenant.domain, domain=domain, failures=5, until_time=until)
    page = words(signed_in(tenant).get(PATH))
    assert f"spared.example {tenant.domain} 5 " in page
    assert "over.example" not in page
    assert f"spared.example {tenant.domain} {tenant.name} 5 " in words(operator(tenant.app).get(PATH))


@pytest.mark.usefixtures("backlog")
def test_operators_see_whose_turn_it_is(tenant: Tenant, other_tenant: Tenant) -> None:
    Rows(other_tenant.services, other_tenant.id).add_send(["a@one.example"], due_in=-DAY, priority="high")
    page = words(operator(tenant.app).get(PATH))
    first = page.index(f"{tenant.name} at least 1 000 0 2 d ")
    second = re.search(rf"{other_tenant.name} 1 1 1 d (\d+ s )?0 0", page)
    assert second, "a slow machine shows a second more"
    assert first < second.start(), "who has waited for longest comes first"
    assert re.search(r"workers take the same number of messages from each account", page)


def test_the_figures_of_the_installation_are_shown(tenant: Tenant, rows: Rows) -> None:
    rows.add_send(["a@one.example"], due_in=-1)
    browser = operator(tenant.app)
    figures = "Send queue Messages Number Oldest due email"
    wait_until(lambda: figures in words(browser.get(PATH)), "a reading of the figures is complete")


@pytest.fixture
def transport(tenant: Tenant) -> Iterator[str]:
    """The name of a transport."""
    name = unique("relay").lower()
    with tenant.services.database.write() as transaction:
        values = {"name": name, "type": "email", "url": "smtp://relay.example:25"}
        create_transport(transaction, tenant.services.settings.secret_keys, values)
    yield name
    with tenant.services.database.write() as transaction:
        delete_transport(transaction, find_transport(transaction, name))


def test_operators_disable_a_transport_and_enable_it(tenant: Tenant, transport: str) -> None:
    browser, path = operator(tenant.app), f"{PATH}/transports/{transport}"

    def is_enabled() -> bool:
        with tenant.services.database.read() as session:
            return session.scalars(select(Transport.enabled).where(Transport.name == transport)).one()

    for field, state, button in (("0", "disabled", "Enable"), ("1", "in use", "Disable")):
        answer = browser.confirm(path, enabled=field)
        assert (answer.status_code, answer.headers["Location"]) == (303, PATH)
        assert is_enabled() is (field == "1")
        page = browser.get(PATH)
        assert f"{transport} email smtp://relay.example:25 {state} {button}" in words(page)
    with tenant.services.database.read() as session:
        criteria = AuditEntry.object == "transport", AuditEntry.object_name == transport
        entries = session.scalars(select(AuditEntry).where(*criteria).order_by(AuditEntry.id)).all()
    assert [entry.action for entry in entries] == ["transport.created", "transport.updated", "transport.updated"]


def test_what_is_no_named_transport_cannot_be_disabled(tenant: Tenant) -> None:
    browser = operator(tenant.app)
    for name in ("default", unique("no").lower(), "<b>", "%00"):
        answer = browser.post(f"{PATH}/transports/{name}", enabled="0")
        assert answer.status_code == 422
        assert "there is no transport" in words(answer)
        assert "<b>" not in answer.text
    assert browser.post(f"{PATH}/transports/default").status_code == 422
    assert 'action="/console/queues/transports/default"' not in browser.get(PATH).text


def test_an_account_sees_no_transport(tenant: Tenant, transport: str) -> None:
    assert transport not in signed_in(tenant).get(PATH).text


def test_an_account_sees_nothing_of_another(tenant: Tenant, other_tenant: Tenant) -> None:
    others = Rows(other_tenant.services, other_tenant.id)
    others.add_send(["a@secret.example"], due_in=-5)
    (later,) = others.add_send(["b@secret.example"], due_in=60)
    add_step(others, later, BUSY)
    until = now() + timedelta(minutes=4)
    other_tenant.add(DomainBackoff, sender_domain=other_tenant.domain, domain="w.example", failures=5, until_time=until)
    for path in (PATH, f"{PATH}?account={other_tenant.id}"):
        page = words(signed_in(tenant).get(path))
        assert "Due 0 High priority 0 of them Sending 0 Deferred 0" in page
        assert not [text for text in ("secret.example", BUSY, "w.example", other_tenant.name) if text in page]


def test_no_text_becomes_markup(tenant: Tenant, rows: Rows) -> None:
    script = "<script>alert(1)</script>"
    with tenant.services.database.write() as transaction:
        name = f"{script}{unique()}"
        transaction.execute(update(Account).where(Account.id == tenant.id).values(name=name))
    (later,) = rows.add_send([f"a@{script}"], due_in=10)
    add_step(rows, later, script)
    for browser, path in ((signed_in(tenant), PATH), (operator(tenant.app), f"{PATH}?account={tenant.id}")):
        text = browser.get(path).text
        assert "&lt;script&gt;" in text
        assert "<script>" not in text


def test_the_page_takes_as_many_statements_for_many_as_for_one(
    tenant: Tenant, other_tenant: Tenant, rows: Rows, count_statements: Callable[[], Any]
) -> None:
    def statements(browser: Browser, path: str) -> int:
        with count_statements() as counter:
            assert browser.get(path).status_code == 200
        return sum(statement.startswith(("SELECT", "WITH")) for statement in counter.statements)

    rows.add_send(["a@one.example"], due_in=60)
    pages = ((signed_in(tenant), PATH), (operator(tenant.app), f"{PATH}?account={tenant.id}"))
    few = [statements(*page) for page in pages]
    for number in range(4):
        other_rows = Rows(other_tenant.services, other_tenant.id)
        other_rows.add_send([f"a@{number}.example"], due_in=-DAY)
        for later in rows.add_send([f"a@{number}.example", f"b@{number}.example"], due_in=60):
            add_step(rows, later, BUSY)
    assert [statements(*page) for page in pages] == few
