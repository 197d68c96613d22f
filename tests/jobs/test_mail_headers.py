"""Mails have the header fields of their send, in the inbox of test keys as well (docs/mail-headers.md)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import delete

from app.clock import now
from app.db.models import QueueEntry, Send
from app.retention.periods import Period, Stage
from app.retention.slices import purge
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from app.services import Services
from tests.jobs.conftest import changed
from tests.jobs.delivery.conftest import parsed
from tests.jobs.test_tags import DAY
from tests.support.client import SENDS, items
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email
from tests.support.testing import refreshed
from tests.unit.transports.mailserver import MailServer

HEADERS = {"X-Order": "Größe 42", "References": "<1@acme.example> <2@acme.example>", "Auto-Submitted": "no"}


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """The relay."""
    with MailServer() as server:
        yield server


@pytest.fixture
def worker(tenant: Tenant, mail_server: MailServer) -> Iterator[Services]:
    """A worker that finds no messages of other tests."""
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(QueueEntry))
    worker = changed(tenant.services, email_transport_url=mail_server.url())
    yield worker
    close_sender_worker(worker)


def test_each_mail_and_its_blind_copy_have_them(tenant: Tenant, worker: Services, mail_server: MailServer) -> None:
    sends = SendsApi(tenant)
    people = [{"email": new_email()}, {"email": new_email()}]
    sends.send(sends.email(headers=HEADERS, recipients=people, bcc_address=f"copy@{tenant.domain}"))
    sends.send(sends.email())
    drain(worker)
    mails = [parsed(mail.content) for mail in mail_server.mails]
    with_headers = [mail for mail in mails if "X-Order" in mail]
    (other,) = (mail for mail in mails if "X-Order" not in mail)
    assert len(with_headers) == 4
    for mail in with_headers:
        assert {name: mail.get_all(name) for name in HEADERS} == {name: [text] for name, text in HEADERS.items()}
    assert other.get_all("Auto-Submitted") == ["auto-generated"]
    assert other["References"] is None


def test_the_inbox_shows_them(tenant: Tenant, worker: Services) -> None:
    sends = SendsApi(tenant)
    mail = sends.email(headers=HEADERS)
    test = refreshed(tenant)
    assert test.api.post(SENDS, mail).status_code == 202
    drain(worker)
    (captured,) = items(test.api.get("/v1/inbox"), "messages")
    content = test.api.get(f"/v1/inbox/{captured['id']}").get_json()["content"]
    assert {name: parsed(content.encode())[name] for name in HEADERS} == HEADERS


def test_they_are_purged_with_the_content(tenant: Tenant, worker: Services) -> None:
    sends = SendsApi(tenant)
    sends.send(sends.email(headers=HEADERS))
    drain(worker)
    purge(worker, Stage.CONTENT, [Period(tenant.id, DAY)], now() + 2 * DAY)
    (send,) = sends.rows(Send)
    assert (send.headers, send.subject) == (None, None)
