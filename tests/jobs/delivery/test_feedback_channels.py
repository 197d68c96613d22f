"""Feedback channels of a mail: headers for mail programs and links in the body (docs/unsubscribing.md)."""

from __future__ import annotations

from pathlib import Path

from app.sends.delivery.drain import drain
from app.services import Services
from app.tracking.feedback_channels import unsubscribe_link
from app.tracking.tokens import return_path, unsubscribe_address
from tests.jobs.delivery.conftest import Changed, body, parsed, texts
from tests.support.preferences import preferences_path
from tests.support.rows import FROM, Rows
from tests.unit.transports.mailserver import MailServer


def test_a_mail_to_a_list_has_unsubscribe_headers(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    """`List-Unsubscribe` and `List-Unsubscribe-Post` (RFC 8058)."""
    (ann,) = rows.add_send(["ann@example.com"], list_id=rows.add_list())
    drain(worker)
    message = parsed(mail_server.mails[0].content)
    assert message.get_all("List-Unsubscribe") == [f"<{unsubscribe_link(worker.settings, ann)}>"]
    assert message.get_all("List-Unsubscribe-Post") == ["List-Unsubscribe=One-Click"]


def test_the_header_names_an_unsubscribe_address_where_a_bounce_domain_is_set(
    rows: Rows, make_worker: Changed, mail_server: MailServer
) -> None:
    worker = make_worker(bounce_domain="bounces.acme.example")
    (ann,) = rows.add_send(["ann@example.com"], list_id=rows.add_list())
    drain(worker)
    (mail,) = mail_server.mails
    link, address = unsubscribe_link(worker.settings, ann), unsubscribe_address(worker.settings, ann)
    assert parsed(mail.content)["List-Unsubscribe"] == f"<{link}>, <mailto:{address}>"
    assert max(len(line) for line in mail.content.split(b"\r\n")) <= 998


def test_a_mail_without_a_list_has_no_unsubscribe_headers(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    rows.add_send(["ann@example.com"])
    drain(worker)
    assert b"List-Unsubscribe" not in mail_server.mails[0].content


def test_each_recipient_has_a_return_path_of_its_own(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    ids = rows.add_send(["ann@example.com", "bob@example.com"])
    drain(worker)
    assert {mail.sender for mail in mail_server.mails} == {
        return_path(worker.settings, recipient_id, FROM) for recipient_id in ids
    }
    assert all(b"bounces+" not in mail.content for mail in mail_server.mails)


def test_a_body_may_contain_the_unsubscribe_link(
    rows: Rows, worker: Services, mail_server: MailServer, tmp_path: Path
) -> None:
    """The link is written `%%unsubscribe_link%%`. A value of the recipient with that name overrides it."""
    own_recipient = {"email": "bob@example.com", "values": {"unsubscribe_link": "https://acme.example/bye"}}
    ann, _ = rows.add_send(
        ["ann@example.com", own_recipient],
        list_id=rows.add_list(),
        body_text="Leave: %%unsubscribe_link%%",
        body_html='<a href="%%unsubscribe_link%%">Leave</a>',
    )
    (carol,) = rows.add_send(["61411111111"], type="sms", body_text="Leave: %%UNSUBSCRIBE_LINK%%")
    drain(worker)
    mails = {mail.recipients[0]: parsed(mail.content) for mail in mail_server.mails}
    link = unsubscribe_link(worker.settings, ann)
    assert body(mails["ann@example.com"], "plain").strip() == f"Leave: {link}"
    assert body(mails["ann@example.com"], "html").strip() == f'<a href="{link}">Leave</a>'
    assert body(mails["bob@example.com"], "plain").strip() == "Leave: https://acme.example/bye"
    assert [text["text"] for text in texts(tmp_path / "sms")] == [f"Leave: {unsubscribe_link(worker.settings, carol)}"]


def test_a_body_may_contain_the_preferences_link(
    rows: Rows, worker: Services, mail_server: MailServer, tmp_path: Path
) -> None:
    """A value of the recipient with that name overrides it, and so does a list field."""
    list_id = rows.add_list()
    contact_id = rows.add_contact(list_id, "cid@example.com", values={"preferences_link": "https://acme.example/own"})
    ann, *_ = rows.add_send(
        [
            "ann@example.com",
            {"email": "bob@example.com", "values": {"preferences_link": "https://acme.example/mine"}},
            {"email": "cid@example.com", "contact_id": contact_id},
        ],
        list_id=list_id,
        subject="Choose",
        body_text="%%preferences_link:HAS%%Choose: %%PREFERENCES_LINK%%%%preferences_link:END%%",
        body_html='<a href="%%preferences_link%%">Choose</a>',
    )
    (carol,) = rows.add_send(["61411111111"], type="sms", body_text="Choose: %%preferences_link%%")
    drain(worker)
    base = worker.settings.public_url
    links = {
        "ann@example.com": f"{base}{preferences_path(worker, ann)}",
        "bob@example.com": "https://acme.example/mine",
        "cid@example.com": "https://acme.example/own",
    }
    mails = {mail.recipients[0]: parsed(mail.content) for mail in mail_server.mails}
    assert {address: body(mail, "plain").strip() for address, mail in mails.items()} == {
        address: f"Choose: {link}" for address, link in links.items()
    }
    assert body(mails["ann@example.com"], "html").strip() == f'<a href="{links["ann@example.com"]}">Choose</a>'
    assert [text["text"] for text in texts(tmp_path / "sms")] == [f"Choose: {base}{preferences_path(worker, carol)}"]
