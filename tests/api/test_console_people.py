"""What is held about a person, in the console (docs/console-contents.md#forgetting-a-person)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import select

from app.addresses import normalize_address
from app.contacts.suppress import block
from app.db.models import AuditEntry, Contact, QueueEntry, Recipient
from app.infrastructure.digests import address_digest
from app.privacy.forget import ForgetReport
from tests.api.test_console_bulk_actions import is_free
from tests.support.browser import linked, operator, signed_in, words
from tests.support.cases import each
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email, new_mobile

PATH = "/console/people"
SCRIPT = "<script>alert(1)</script>"


def acts(tenant: Tenant) -> list[tuple[str, str | None]]:
    """Action and digest of what was done with people of the account."""
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object == "person"
        columns: tuple[Any, ...] = (AuditEntry.action, AuditEntry.address_digest)
        return [(row[0], row[1]) for row in session.execute(select(*columns).where(*criteria).order_by(AuditEntry.id))]


def digest(tenant: Tenant, address: str) -> str:
    return address_digest(tenant.services.settings.secret_key, normalize_address("email", address))


def test_handing_out_keeps_no_connection_while_its_reader_takes_its_time(tenant: Tenant, sends: SendsApi) -> None:
    address = new_email("Bea")
    tenant.new_contact(sends.list_id, email=address)
    for _ in range(3):
        sent = tenant.api.post("/v1/transactional-sends", sends.email(recipients=[{"email": address}]))
        assert sent.status_code == 202
    answer = linked(tenant).post(f"{PATH}/export", address=address)
    assert "Content-Length" not in answer.headers
    parts = []
    for part in answer.response:
        assert is_free(tenant.services.database)
        parts.append(part if isinstance(part, bytes) else part.encode())
    assert len(parts) > 10
    assert json.loads(b"".join(parts))["accounts"][tenant.name]["contacts"]


def test_a_person_is_looked_up_handed_out_and_forgotten(tenant: Tenant, sends: SendsApi) -> None:
    address, other = new_email("Ann"), new_mobile()
    contact_id = tenant.new_contact(sends.list_id, email=address, mobile=other, last_name="Lee")["id"]
    assert tenant.api.post("/v1/transactional-sends", sends.email(recipients=[{"email": address}])).status_code == 202
    with tenant.services.database.write() as transaction:
        block(transaction, tenant.id, "email", address, "left us")
    browser = linked(tenant)
    contact = browser.get(f"/console/lists/{sends.list_id}/contacts/{contact_id}").text
    assert f'action="{PATH}/held"' in contact
    held = browser.post(f"{PATH}/held", address=address.upper())
    page = words(held)
    assert "contacts with their list fields 1" in page
    assert "unsubscribed and blocked addresses 1" in page
    assert "A keyed hash of the address" in page
    assert "contacts forget" not in page, "an account has no command line"
    operator_page = words(operator(tenant.app).post(f"{PATH}/held?account={tenant.id}", address=address))
    assert "With millions of events it takes longer; use flask --app wsgi contacts forget instead." in operator_page
    assert acts(tenant) == []
    file = browser.post(f"{PATH}/export", address=address)
    assert file.headers["Content-Disposition"] == 'attachment; filename="person.json"'
    places = json.loads(file.text)["accounts"][tenant.name]
    assert [row["values"] for row in places["contacts"]] == [{"last_name": "Lee"}]
    refused = browser.post(f"{PATH}/forget", address=address, confirmation="ann")
    assert refused.status_code == 422
    assert f"Nothing was removed. Enter the address, {address.lower()}, to confirm." in words(refused)
    assert 'name="confirmation"' in refused.text
    done = browser.post(f"{PATH}/forget", address=address, confirmation=f" {address.upper()} ")
    assert done.status_code == 200
    page = words(done)
    assert "Forgotten" in page
    assert "contacts 1" in page
    assert "messages not sent 1" in page
    assert "What is kept as a keyed hash blocked 1" in page
    assert f"Show personal data of {other}" in page
    with tenant.services.database.read() as session:
        assert session.get(Contact, contact_id) is None
        assert session.scalars(select(Recipient.email).where(Recipient.account_id == tenant.id)).all() == [None]
        assert session.scalars(select(QueueEntry.recipient_id).where(QueueEntry.account_id == tenant.id)).all() == []
    assert acts(tenant) == [
        ("person.exported", digest(tenant, address)),
        ("person.forgotten", digest(tenant, address)),
    ]
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object == "contact"
        assert session.scalars(select(AuditEntry.action).where(*criteria)).all() == []
        last = select(AuditEntry.counts).where(AuditEntry.account_id == tenant.id).order_by(AuditEntry.id.desc())
        assert session.scalars(last.limit(1)).one() == {"contacts": 1, "messages": 1, "suppressions": 1}
    assert "No data about this address." in words(browser.post(f"{PATH}/held", address=new_email()))


@each("action", ["held", "forget", "export"])
def test_what_is_no_address_and_nobody_are_said_and_not_recorded(tenant: Tenant, action: str) -> None:
    browser = linked(tenant)
    answer = browser.post(f"{PATH}/{action}", address=SCRIPT)
    assert answer.status_code == 422
    assert "is neither an email address nor a mobile number" in words(answer)
    assert "<script>" not in answer.text
    if action != "forget":
        nobody = browser.post(f"{PATH}/{action}", address=new_email())
        assert "No data about this address." in words(nobody)
    assert acts(tenant) == []


def test_what_is_being_handed_over_is_said_and_can_be_gone_on_with(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = ForgetReport(in_flight=["a uuid"], journals=["a.journal"])
    monkeypatch.setattr("app.console.people.forget", lambda *_, **__: left)
    page = linked(tenant).post(f"{PATH}/forget", address="ann@example.com", confirmation="ann@example.com")
    text = words(page)
    assert "Not forgotten yet" in text
    assert "1 message is being sent now." in text
    assert "Some results are not stored yet." in text
    assert 'name="confirmation" value="ann@example.com"' in page.text


def test_no_key_does_so_and_no_account_does_so_in_another(tenant: Tenant, other_tenant: Tenant) -> None:
    address, list_id = new_email(), tenant.add_list()
    contact_id = tenant.new_contact(list_id, email=address)["id"]
    assert PATH not in signed_in(tenant).get(f"/console/lists/{list_id}/contacts/{contact_id}").text
    query, theirs = f"?account={tenant.id}", linked(other_tenant)
    assert "No data about" in words(theirs.post(f"{PATH}/held{query}", address=address))
    theirs.post(f"{PATH}/forget{query}", address=address, confirmation=address)
    with tenant.services.database.read() as session:
        assert session.get(Contact, contact_id) is not None
    all_ = operator(tenant.app)
    assert "contacts with their list fields 1" in words(all_.post(f"{PATH}/held{query}", address=address))
