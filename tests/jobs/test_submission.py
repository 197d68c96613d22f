"""Sending by SMTP (docs/smtp-submission.md): a mail that an application submits becomes a send, and leaves as the
application wrote it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.db.models import Attachment, Contact, Group, Recipient, Send
from tests.support.sends import rows_of
from tests.support.submitting import Application, columns_of, delivered, listening, logged_in, mail
from tests.support.tenants import Tenant, new_email

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture
def list_id(tenant: Tenant) -> int:
    return tenant.add_list()


@pytest.fixture
def application(tenant: Tenant) -> Iterator[Application]:
    with listening(tenant.services) as port, logged_in(port, tenant) as application:
        yield application


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
