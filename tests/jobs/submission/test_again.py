"""A mail that is submitted again is accepted once (docs/smtp-submission.md#sent-again)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from email.message import EmailMessage
from threading import Barrier

import pytest
from sqlalchemy import update

from app.clock import now
from app.db.models import IdempotencyRecord, Recipient, Send
from app.maintenance import sweeps
from tests.support.sends import rows_of
from tests.support.submitting import Application, listening, logged_in, mail
from tests.support.tenants import Tenant, add_key, new_email, unique


def age_records(tenant: Tenant, age: timedelta) -> None:
    with tenant.services.database.write() as transaction:
        records = update(IdempotencyRecord).where(IdempotencyRecord.account_id == tenant.id)
        transaction.execute(records.values(creation_time=now() - age))


def changed(written: EmailMessage, **fields: str) -> bytes:
    """The mail with further fields before its own, as servers add them."""
    added = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return added.encode() + written.as_bytes().replace(b"\n", b"\r\n")


def test_the_same_mail_is_answered_alike_and_further_recipients_of_it_are_accepted(
    tenant: Tenant, list_id: int, application: Application
) -> None:
    """A server has split it into several transactions, and has lost the answer to the first."""
    ann, bob, cat = (new_email(name) for name in ("ann", "bob", "cat"))
    written = mail(tenant, list_id, To=f"{ann}, {bob}, {cat}")
    first = application.uuids(written, ann, bob)
    trace = changed(written, Received="from a by b; Sat, 28 Nov 2026 10:00:00 +0000", Return_Path="<a@b.example>")
    assert application.uuids(trace, ann, bob) == first
    (third,) = application.uuids(written, cat)
    assert application.uuids(written, cat, ann.upper(), bob) == [third, *first]
    assert sorted(row.email for row in rows_of(tenant, Recipient)) == sorted([ann, bob, cat])
    assert len(rows_of(tenant, Send)) == 2


def test_an_address_that_is_named_twice_is_one_recipient(
    tenant: Tenant, list_id: int, application: Application
) -> None:
    ann = new_email("ann")
    assert len(application.uuids(mail(tenant, list_id), ann, ann, ann.upper())) == 1


def test_another_content_or_key_makes_another_mail(tenant: Tenant, list_id: int, application: Application) -> None:
    ann = new_email("ann")
    written = mail(tenant, list_id, To=ann)
    uuids = application.uuids(written, ann)
    for name, value in (("Subject", "Other"), ("From", f"Other <hello@{tenant.domain}>"), ("To", "x@acme.example")):
        other = mail(tenant, list_id, **{"To": ann, "Message_ID": str(written["Message-ID"]), name: value})
        uuids += application.uuids(other, ann)
    other = mail(tenant, list_id, To=ann, Message_ID=str(written["Message-ID"]), X_TMS_Group="Other")
    uuids += application.uuids(other, ann)
    other = mail(tenant, list_id, To=ann, Message_ID=str(written["Message-ID"]))
    other.add_attachment(b"a", maintype="text", subtype="plain", filename="a.txt")
    uuids += application.uuids(other, ann)
    other.get_payload()[1].set_payload("Yg==\n")  # type: ignore[index,union-attr]
    uuids += application.uuids(other, ann)
    tenant.tokens["second"] = add_key(tenant, "standard")
    with listening(tenant.services) as port, logged_in(port, tenant, "second") as second:
        uuids += second.uuids(written, ann)
    assert len(set(uuids)) == len(uuids) == len(rows_of(tenant, Recipient)) == 8


@pytest.mark.parametrize("message_id", [None, "", "no id", "<a b@example.com>"])
def test_a_mail_without_a_message_id_is_always_another_one(
    tenant: Tenant, list_id: int, application: Application, message_id: str | None
) -> None:
    ann = new_email("ann")
    written = mail(tenant, list_id, To=ann)
    del written["Message-ID"]
    raw = changed(written, **({} if message_id is None else {"Message_ID": message_id}))
    assert application.uuids(raw, ann) != application.uuids(raw, ann)
    assert rows_of(tenant, IdempotencyRecord) == []


def test_it_is_remembered_as_long_as_idempotency_keys(tenant: Tenant, list_id: int, application: Application) -> None:
    ann = new_email("ann")
    written = mail(tenant, list_id, To=ann)
    first = application.uuids(written, ann)
    age_records(tenant, timedelta(hours=23, minutes=59))
    assert application.uuids(written, ann) == first
    age_records(tenant, timedelta(hours=24, minutes=1))
    second = application.uuids(written, ann)
    assert second != first
    assert application.uuids(written, ann) == second
    age_records(tenant, timedelta(hours=24, minutes=1))
    sweeps.clean(tenant.services)
    assert rows_of(tenant, IdempotencyRecord) == []


def test_what_is_refused_is_not_remembered(tenant: Tenant, list_id: int, application: Application) -> None:
    ann = new_email("ann")
    written = mail(tenant, list_id, To=ann, X_TMS_Transport=unique())
    assert application.submit(written, ann)[0] == 550
    assert rows_of(tenant, IdempotencyRecord) == rows_of(tenant, Recipient) == []


def test_sessions_at_the_same_moment_accept_it_once(tenant: Tenant, list_id: int) -> None:
    """Each names recipients of its own, too, and in another order."""
    count = 6
    shared = [new_email("shared") for _ in range(3)]
    written = mail(tenant, list_id, To=shared[0])
    with listening(tenant.services) as port, ExitStack() as stack:
        applications = [stack.enter_context(logged_in(port, tenant)) for _ in range(count)]
        for application in applications:
            application.client.mail(application.sender)
        start = Barrier(count)

        def submit(number: int) -> list[str]:
            client, order = applications[number].client, shared if number % 2 else shared[::-1]
            for address in (*order, f"own-{number}-{shared[0]}"):
                client.rcpt(address)
            start.wait()
            code, text = client.data(written.as_bytes())
            assert code == 250, text
            uuids = [line.partition(" ")[2] for line in text.decode().splitlines()]
            return uuids[:3] if number % 2 else uuids[2::-1]

        with ThreadPoolExecutor(count) as threads:
            answers = list(threads.map(submit, range(count)))
    assert answers == [answers[0]] * count
    assert len(rows_of(tenant, Recipient)) == 3 + count
