"""Sending by SMTP (docs/smtp-submission.md): a mail that an application submits becomes a send, and leaves as the
application wrote it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.clock import now
from app.db.models import Attachment, Contact, Group, Recipient, Send
from app.inbox.read import InboxFilter, list_captured
from app.privacy.forget import forget
from app.retention.slices import delete_content
from app.sends.delivery.drain import drain
from tests.support.sends import SendsApi, rows_of
from tests.support.submitting import Application, columns_of, delivered, listening, logged_in, mail
from tests.support.tenants import Tenant, new_email
from tests.support.testing import refreshed

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def test_a_mail_becomes_one_send_to_each_recipient_of_the_envelope(
    tenant: Tenant, list_id: int, application: Application
) -> None:
    """The group is named after the key, and contacts are created as by a request."""
    ann, bob = new_email("Ann"), new_email("bob")
    written = mail(tenant, list_id, To=f"Ann <{ann}>", Cc="team@elsewhere.example", Bcc=bob)
    uuids = application.uuids(written, ann, bob)
    (send,) = rows_of(tenant, Send)
    assert columns_of(rows_of(tenant, Recipient), "uuid", "email", "send_id", "list_id") == [
        (uuids[0], ann, send.id, list_id),
        (uuids[1], bob, send.id, list_id),
    ]
    assert sorted(row.email for row in rows_of(tenant, Contact)) == sorted([ann, bob])
    assert [row.name for row in rows_of(tenant, Group)] == [send.group_name]
    for uuid in uuids:
        message = delivered(tenant, uuid)
        assert (message["To"], message["Cc"], message["Bcc"]) == (f"Ann <{ann}>", "team@elsewhere.example", None)
        assert (message["From"], message["Subject"]) == (f"Acme <hello@{tenant.domain}>", "Hello")
        assert "X-TMS-List" not in message
        assert message.get_content().replace("\r\n", "\n") == "Hello, 100%% %%first_name%% of it.\n"


def test_every_part_of_a_mail_leaves(tenant: Tenant, list_id: int, application: Application) -> None:
    ann = new_email("ann")
    written = mail(tenant, list_id, To=ann, Reply_To="Help <help@acme.example>, b@acme.example")
    written.replace_header("Subject", "Grüße %%first_name%%")
    written.add_alternative('<p>Zoë <img src="cid:logo@app"> %%if%%</p>', subtype="html")
    html = written.get_payload()[1]  # type: ignore[index]
    html.add_related(PNG, "image", "png", cid="<logo@app>")  # type: ignore[union-attr]
    written.add_attachment(b"a,b\r\n1,2\r\n", maintype="text", subtype="csv", filename="Übersicht.csv")
    written.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename="a b.pdf")
    (uuid,) = application.uuids(written, ann)
    message = delivered(tenant, uuid)
    assert message["Subject"] == "Grüße %%first_name%%"
    assert message["Reply-To"] == "Help <help@acme.example>, b@acme.example"
    names = [row.name for row in rows_of(tenant, Attachment)]
    assert names == ["image-1.png", "Übersicht.csv", "a b.pdf"]
    assert [part.get_filename() for part in message.iter_attachments()] == ["Übersicht.csv", "a b.pdf"]
    body = message.get_body(("html",))
    assert body is not None
    (image,) = [part for part in message.walk() if part.get_content_type() == "image/png"]
    assert f'<img src="cid:{image["Content-ID"].strip("<>")}"> %%if%%</p>' in body.get_content()
    assert image.get_content() == PNG
    text = message.get_body(("plain",))
    assert text is not None
    assert "100%% %%first_name%%" in text.get_content()


def test_options_of_a_mail_are_those_of_a_request(tenant: Tenant, list_id: int, application: Application) -> None:
    options = {
        "X_TMS_Group": "Resets",
        "X_TMS_Track_Opens": "on",
        "X_TMS_Track_Clicks": "off",
        "X_TMS_Include_Unsubscribed": "on",
        "X_TMS_Priority": "high",
    }
    (uuid,) = application.uuids(mail(tenant, list_id, **options), new_email())
    (send,) = rows_of(tenant, Send)
    names = ("group_name", "track_opens", "track_clicks", "include_unsubscribed", "priority")
    assert columns_of([send], *names) == [("Resets", True, False, True, "high")]
    assert [name for name in delivered(tenant, uuid) if name.startswith(("X-TMS", "List-Unsub"))] == []


def test_fields_of_the_application_leave_with_its_message_id_among_the_references(
    tenant: Tenant, list_id: int, application: Application
) -> None:
    """They are signed with the rest of the mail, and gone with its content."""
    fields = {"X_Ticket": "Nr. ü", "In_Reply_To": "<0@app.example>", "References": "<0@app.example>"}
    written = mail(tenant, list_id, To="Zoë <zoe@example.com>", **fields, Auto_Submitted="auto-replied")
    (uuid,) = application.uuids(written, "zoe@example.com")
    message = delivered(tenant, uuid)
    assert message["References"] == f"<0@app.example> {written['Message-ID']}"
    assert message["Message-ID"] == f"<{uuid}@{tenant.domain}>"
    names = ("X-Ticket", "In-Reply-To", "Auto-Submitted", "To")
    assert [message.get_all(name) for name in names] == [
        ["Nr. ü"],
        ["<0@app.example>"],
        ["auto-replied"],
        ["Zoë <zoe@example.com>"],
    ]
    (send,) = rows_of(tenant, Send)
    assert send.headers["X-Ticket"] == "Nr. ü"
    with tenant.services.database.write() as transaction:
        delete_content(transaction, [send.id], [row.id for row in rows_of(tenant, Recipient)], now())
    (send,) = rows_of(tenant, Send)
    assert (send.headers, send.subject, send.content_purged_time is None) == (None, None, False)


def test_a_send_of_the_api_has_neither(tenant: Tenant) -> None:
    api = SendsApi(tenant)
    api.send(api.email())
    assert columns_of(rows_of(tenant, Send), "literal", "headers") == [(False, None)]


def test_mails_of_a_test_key_are_captured(tenant: Tenant, list_id: int) -> None:
    test = refreshed(tenant)
    with listening(test.services) as port, logged_in(port, test) as application:
        (uuid,) = application.uuids(mail(test, list_id), "ann@example.com")
    drain(test.services)
    with test.services.database.read() as session:
        (captured,) = list_captured(session, InboxFilter(test.id), 100)
    assert (captured.uuid, captured.address) == (uuid, "ann@example.com")
    assert b"100%% %%first_name%%" in captured.content


def test_a_mail_costs_as_many_statements_for_a_hundred_recipients_as_for_one(
    tenant: Tenant, list_id: int, application: Application, count_statements: Callable[[], Any]
) -> None:
    counts = []
    for number in (1, 1, 100):
        addresses = [new_email() for _ in range(number)]
        application.client.mail(application.sender)
        for address in addresses:
            application.client.rcpt(address)
        with count_statements() as statements:
            assert application.client.data(mail(tenant, list_id).as_bytes())[0] == 250
        counts.append(statements.count)
    assert counts[1] == counts[2]


def test_a_person_who_is_forgotten_is_named_in_no_header(
    tenant: Tenant, list_id: int, application: Application
) -> None:
    """The mail to the others leaves without what its author has written in the header."""
    ann, bob = new_email("ann"), new_email("bob")
    _, uuid = application.uuids(mail(tenant, list_id, To=f"{ann}, {bob}"), ann, bob)
    forget(tenant.services, [tenant.id], "email", ann, wait=0)
    (send,) = rows_of(tenant, Send)
    assert (send.headers, send.subject) == (None, "Hello")
    assert delivered(tenant, uuid)["To"] == bob
