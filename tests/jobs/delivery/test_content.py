"""Content of a delivered message: personalisation, attachments, headers, opt-out link
(docs/personalisation.md#values)."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from app.clock import now
from app.sends.delivery.drain import drain
from app.services import Services
from app.tracking.tokens import return_path
from tests.jobs.delivery.conftest import Changed, body, cid_of, events, parsed, texts
from tests.support.rows import FROM, Rows
from tests.unit.transports.mailserver import MailServer

PNG = b"\x89PNG\r\n\x1a\n"


def test_a_mail_has_the_headers_of_the_sender_and_none_of_the_blind_copy(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """No header mentions the blind copy."""
    accepted = now() - timedelta(hours=3)
    (ann,) = rows.add_send(
        ["ann@example.com"], reply_to="answers@elsewhere.example", bcc_address="copy@acme.example", accepted=accepted
    )
    drain(worker)
    mail, copy = mail_server.mails
    message = parsed(mail.content)
    assert mail.sender == copy.sender == return_path(worker.settings, ann, FROM)
    assert (mail.recipients, copy.recipients) == (["ann@example.com"], ["copy@acme.example"])
    assert (message["From"], message["To"], message["Reply-To"]) == (
        f"Acme <{FROM}>",
        "ann@example.com",
        "answers@elsewhere.example",
    )
    assert message["Message-ID"] == f"<{rows.recipient(ann).uuid}@acme.example>"
    assert message["Date"].datetime == accepted.replace(microsecond=0)
    assert b"copy@acme.example" not in mail.content + copy.content


def test_values_of_the_request_override_those_of_the_contact(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """The contact's values are its attributes and list fields."""
    list_id = rows.add_list()
    contact_id = rows.add_contact(
        list_id, "ann@example.com", "61411111111", values={"first_name": "Stored", "last_name": "Byron", "score": 7.0}
    )
    rows.add_send(
        [{"email": "ANN@example.com", "contact_id": contact_id, "values": {"First_Name": "Own", "pair": "a &amp; b"}}],
        list_id=list_id,
        subject="Hi %%first_name%% %%pair%%",
        body_text="%%last_name%%|%%score%%|%%email%%|%%mobile%%|%%contact_id%%|%%list_id%%|%%none**fallback%%|%%pair%%",
        body_html="<p>%%pair%%</p>",
    )
    drain(worker)
    message = parsed(mail_server.mails[0].content)
    assert message["Subject"] == "Hi Own a & b"
    assert body(message, "plain").strip() == (
        f"Byron|7|ann@example.com|61411111111|{contact_id}|{list_id}|fallback|a & b"
    )
    assert body(message, "html").strip() == "<p>a &amp; b</p>"


def test_plain_values_are_escaped(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    """Values are escaped if `recipient_data_html_encoded` is false, except those named `#key`."""
    rows.add_send(
        [{"email": "ann@example.com", "values": {"v": "<b>", "#w": "<i>"}}],
        recipient_data_html_encoded=False,
        body_text=None,
        body_html="<p>%%v%%%%w%%</p>",
    )
    drain(worker)
    assert body(parsed(mail_server.mails[0].content), "html").strip() == "<p>&lt;b&gt;<i></p>"


def test_attachments_of_the_send_and_of_the_recipient_are_attached(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """Every recipient gets the attachments of the send, and only one gets its own."""
    own_recipient = {"email": "a@example.com", "attachments": [("mine.txt", "text/plain", b"mine")]}
    rows.add_send(
        [own_recipient, "b@example.com"],
        attachments=[("all.pdf", "application/pdf", b"%PDF")],
        body_text="%%attachment:CONTAINS:mine%%with%%attachment:ELSE%%without%%attachment:END%%",
    )
    drain(worker)
    received = {}
    for mail in mail_server.mails:
        message = parsed(mail.content)
        files = {part.get_filename(): part.get_content_type() for part in message.iter_attachments()}
        received[mail.recipients[0]] = (body(message, "plain").strip(), files)
    assert received == {
        "a@example.com": ("with", {"all.pdf": "application/pdf", "mine.txt": "text/plain"}),
        "b@example.com": ("without", {"all.pdf": "application/pdf"}),
    }


def test_an_inline_attachment_has_the_content_id_that_the_body_refers_to(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """`cid:content_<id>` in the body, multipart/related, and the matching Content-ID."""
    rows.add_send(
        ["ann@example.com"],
        attachments=[("logo.png", "image/png", PNG)],
        body_text=None,
        body_html='<img src="%%attachment:logo.png%%">',
    )
    drain(worker)
    message = parsed(mail_server.mails[0].content)
    (image,) = [part for part in message.walk() if part.get_content_type() == "image/png"]
    assert message.get_content_type() == "multipart/related"
    assert image["Content-ID"] == f"<{cid_of(body(message, 'html'))}>"
    assert image.get_payload(decode=True) == PNG


def test_recipients_do_not_see_each_other(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    """Each recipient gets a mail of its own."""
    addresses = [f"{number}@example.com" for number in range(25)]
    rows.add_send(addresses)
    drain(worker)
    assert sorted(mail.recipients[0] for mail in mail_server.mails) == sorted(addresses)
    for mail in mail_server.mails:
        assert re.findall(rb"\d+@example\.com", mail.content) == [mail.recipients[0].encode()]


def test_a_retried_mail_keeps_its_message_id_and_date(rows: Rows, make_worker: Changed, tmp_path: Path) -> None:
    """See docs/retries.md."""
    folder = tmp_path / "mail"
    folder.write_text("no folder can be made here")
    worker = make_worker(email_transport_url=f"file://{folder}")
    accepted = now() - timedelta(hours=1)
    (ann,) = rows.add_send(["ann@example.com"], accepted=accepted)
    drain(worker)
    assert rows.states([ann]) == ["queued"]
    folder.unlink()
    rows.make_due([ann])
    drain(worker)
    recipient = rows.recipient(ann)
    message = parsed((folder / f"{recipient.uuid}.eml").read_bytes())
    assert (recipient.state, recipient.attempts) == ("delivered", 2)
    assert message["Message-ID"] == f"<{recipient.uuid}@acme.example>"
    assert message["Date"].datetime == accepted.replace(microsecond=0)


def test_an_opt_out_link_is_appended(rows: Rows, make_worker: Changed, tmp_path: Path) -> None:
    """The service appends each recipient's opt-out link if `unsubscribe_type` is `link`."""
    rows.add_send(["61411111111", "61422222222"], type="sms", unsubscribe_type="link", body_text="Hi")
    drain(make_worker(public_url="https://t.example"))
    bodies = [text["text"] for text in texts(tmp_path / "sms")]
    links = {re.fullmatch(r"Hi\nOpt out: (https://t\.example/u/[\w-]{15,24})", text) for text in bodies}
    assert None not in links
    assert len({match[1] for match in links if match}) == 2


def test_other_unsubscribe_types_append_nothing(rows: Rows, worker: Services, tmp_path: Path) -> None:
    """The other types are `word` and `none`, and the type may be absent."""
    for unsubscribe_type in ("word", "none", None):
        rows.add_send(["61411111111"], type="sms", unsubscribe_type=unsubscribe_type, body_text="Hi %%mobile%%")
    drain(worker)
    assert [text["text"] for text in texts(tmp_path / "sms")] == ["Hi 61411111111"] * 3


def test_a_mail_with_html_only_gets_a_generated_text_part(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """HTML without readable text is sent alone."""
    rows.add_send(["ann@example.com"], body_html='<p>Grüße, <a href="https://a.example/">Ann</a></p>', body_text=None)
    drain(worker)
    rows.add_send(["ann@example.com"], body_html='<img src="https://a.example/x.png">', body_text=None)
    drain(worker)
    first, second = (parsed(mail.content) for mail in mail_server.mails)
    assert [part.get_content_type() for part in first.walk()] == ["multipart/alternative", "text/plain", "text/html"]
    assert body(first, "plain").strip() == "Grüße, [Ann](https://a.example/)"
    assert [part.get_content_type() for part in second.walk()] == ["text/html"]


@pytest.mark.parametrize("unsubscribe_type", ["none", "link"])
def test_a_text_message_that_is_empty_after_personalisation_is_not_sent(
    rows: Rows, worker: Services, tmp_path: Path, unsubscribe_type: str
) -> None:
    """The recipient is `failed` with `content_missing`. Other recipients of the send get their messages."""
    rows.add_webhook()
    people = [
        {"mobile": f"6141111111{number}", "values": values}
        for number, values in enumerate(({}, {"x": " "}, {"x": "a"}))
    ]
    ids = rows.add_send(people, type="sms", unsubscribe_type=unsubscribe_type, body_text="%%x%%\n%%y:HAS%%b%%y:END%%")
    drain(worker)
    assert rows.states(ids) == ["failed", "failed", "sent"]
    assert [text["to"] for text in texts(tmp_path / "sms")] == ["61411111112"]
    recipient = rows.recipient(ids[0])
    assert (recipient.reason, recipient.mobile) == ("content_missing", "61411111110")
    assert rows.steps(ids[0]) == [("failed", "the text is empty once it is filled in")]
    events_by_recipient = {event["id"]: event for event in events(rows)}
    assert [
        (events_by_recipient[recipient_id]["event"], events_by_recipient[recipient_id].get("fail_reason"))
        for recipient_id in ids
    ] == [
        ("failed", "content_missing"),
        ("failed", "content_missing"),
        ("sent", None),
    ]
    group = rows.group_of(ids[0])
    assert (group.failed_contacts, group.delivered) == (2, 1)
