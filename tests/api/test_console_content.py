"""What a message says, as the console shows it (docs/console-messages.md#what-was-sent)."""

from __future__ import annotations

import email
import re
from datetime import timedelta

from sqlalchemy import select, update
from werkzeug.test import TestResponse

from app.clock import now
from app.console.content import compose_content, find_content
from app.db.models import Account, Contact, Recipient, RecipientStep, Send
from app.recipients.timeline import TimelineStep
from app.retention.slices import delete_content
from app.sends.delivery.load import load
from app.sends.delivery.message import MessageBuilder
from app.sends.recompose import as_claimed
from app.sends.secret_values import MASK
from app.transports.base import OutboundEmail
from tests.api.test_console_messages import settle
from tests.support.browser import operator, signed_in, words
from tests.support.cases import each
from tests.support.sends import SendsApi, file
from tests.support.tenants import Tenant, new_email, new_mobile

PARTS = ("", "/html", "/image", "/source", "/attachment")
SCRIPT = "<script>alert(1)</script>"
PIXEL = b"\x89PNG\r\n\x1a\n0000"
HTML = (
    '<p>Hello %%name**you%%, <a href="https://acme.example/offer?p=%%code%%">offer</a> '
    f'<a href="%%unsubscribe_link%%">no more</a> <img src="%%attachment:dot.png%%"></p>{SCRIPT}'
)


def mail(sends: SendsApi, **changes: object) -> str:
    """An accepted mail with all parts; its uuid."""
    body = sends.email(
        **{
            "subject": "Grüße, %%name**you%%",
            "body_html": HTML,
            "body_text": "Hello %%name**you%%",
            "track_opens": True,
            "track_clicks": True,
            "attachments": [file("dot.png", "image/png", PIXEL), file("a.html", "text/html", SCRIPT.encode())],
            "recipients": [{"email": new_email(), "name": "Ann", "code": "47110815"}],
            **changes,
        }
    )
    return sends.send(body).uuids[0]


def path_of(uuid: str, part: str = "") -> str:
    return f"/console/messages/{uuid}/content{part}"


def rules(answer: TestResponse) -> dict[str, str]:
    """The policy of an answer."""
    pairs = (rule.strip().partition(" ") for rule in answer.headers["Content-Security-Policy"].split(";"))
    return {name: value for name, _, value in pairs}


def test_a_mail_is_shown_with_all_of_its_parts(tenant: Tenant, sends: SendsApi) -> None:
    uuid = mail(sends)
    page = signed_in(tenant).get(path_of(uuid))
    text = words(page)
    assert f'<iframe class="mail" src="{path_of(uuid, "/html")}" sandbox="allow-same-origin" title=' in page.text
    assert "Grüße, Ann as it would be sent now" in text
    assert "Plain text Hello Ann Attachments dot.png image/png, 12 bytes, shown in the HTML" in text
    assert f"a.html text/html, {len(SCRIPT)} bytes" in text
    assert f"From Acme <hello@{tenant.domain}>" in text
    assert SCRIPT not in page.text
    assert rules(page)["frame-src"] == "'self'"
    settle(tenant, uuid, "delivered")
    assert "Grüße, Ann as sent" in words(signed_in(tenant).get(path_of(uuid)))


def test_only_pages_with_a_frame_may_have_frames(tenant: Tenant, sends: SendsApi) -> None:
    browser, uuid = signed_in(tenant), mail(sends)
    for path in ("/console", f"/console/messages/{uuid}", path_of(uuid, "/source"), path_of(uuid, "/attachment")):
        assert "frame-src" not in rules(browser.get(path))


def test_the_html_is_sandboxed_and_needs_nothing_from_elsewhere(tenant: Tenant, sends: SendsApi) -> None:
    uuid = mail(sends)
    browser = signed_in(tenant)
    answer = browser.get(path_of(uuid, "/html"))
    policy = {
        "sandbox": "",
        **dict.fromkeys(("default-src", "form-action", "base-uri"), "'none'"),
        "img-src": "data:",
        "style-src": "'unsafe-inline'",
        "frame-ancestors": "'self'",
    }
    images = path_of(uuid, "/image")
    origins = dict.fromkeys(("http://localhost", tenant.services.settings.public_url))
    sources = " ".join(f"{origin}{images}" for origin in origins)
    assert rules(answer) == {**policy, "sandbox": "allow-same-origin", "img-src": f"data: {sources}"}
    assert answer.mimetype == "text/html"
    assert answer.headers["Cache-Control"] == "no-store"
    assert '<p>Hello Ann, <a href="https://acme.example/offer?p=47110815">' in answer.text
    assert f'<img src="{images}?number=1">' in answer.text
    assert "/o/" not in answer.text, "there is no pixel"
    without = browser.get(path_of(mail(sends, body_html="<p>Hello</p>"), "/html"))
    assert rules(without) == policy, "without images its origin is nobody's"


def test_an_image_of_the_html_has_an_address_of_its_own(tenant: Tenant, sends: SendsApi) -> None:
    """The image is shown to those who may see the mail. Its address gives images alone."""
    uuid = mail(sends)
    browser = signed_in(tenant)
    answer = browser.get(f"{path_of(uuid, '/image')}?number=1")
    assert (answer.data, answer.content_type) == (PIXEL, "image/png")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert rules(answer) == {
        "sandbox": "",
        **dict.fromkeys(("default-src", "form-action", "base-uri", "frame-ancestors"), "'none'"),
    }
    assert browser.get(f"{path_of(uuid, '/image')}?number=2").status_code == 404, "it is HTML"
    assert browser.get(f"{path_of(uuid, '/image')}?number=3").status_code == 404


def test_what_is_shown_of_a_mail_does_not_grow_with_references_to_an_image(tenant: Tenant, sends: SendsApi) -> None:
    """Two megabytes in a mail whose HTML shows them 300 times: each was another copy of them."""
    image = PIXEL + b"x" * 2_000_000
    html = "<p>" + '<img src="%%attachment:dot.png%%">' * 300 + "</p>"
    uuid = mail(sends, body_html=html, attachments=[file("dot.png", "image/png", image)])
    browser = signed_in(tenant)
    answer = browser.get(path_of(uuid, "/html"))
    assert answer.text.count("/image?number=1") == 300
    assert len(answer.data) < 5 * len(html)
    assert browser.get(f"{path_of(uuid, '/image')}?number=1").data == image


def test_the_source_is_a_mail_of_which_nothing_works(tenant: Tenant, sends: SendsApi) -> None:
    uuid = mail(sends)
    browser = signed_in(tenant)
    answer = browser.get(path_of(uuid, "/source"))
    assert answer.content_type == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    source = email.message_from_bytes(answer.data)
    assert source["Message-ID"] == f"<{uuid}@{tenant.domain}>"
    html = next(part for part in source.walk() if part.get_content_type() == "text/html")
    body = html.get_payload(decode=True)
    assert isinstance(body, bytes)
    for pattern in (rb"/o/[\w-]+\.gif", rb"/c/[\w-]+", rb"/u/[\w-]+"):
        link = re.search(pattern, body)
        assert link
        tenant.app.test_client().get(link[0].decode(), base_url="http://localhost")
    recipient = sends.rows(Recipient)[0]
    assert (recipient.first_open_time, recipient.first_click_time) == (None, None)
    assert "dry-run" in str(source["List-Unsubscribe"])


def test_without_links_of_the_recipient_it_is_what_is_sent_to_the_byte(tenant: Tenant, sends: SendsApi) -> None:
    nothing = {"include_unsubscribed": True, "track_opens": False, "track_clicks": False}
    uuid = mail(sends, body_html="<p>Dear %%name%%</p>", **nothing)
    services = tenant.services
    with services.database.read() as session:
        recipient = session.scalars(select(Recipient).where(Recipient.uuid == uuid)).one()
        (claimed,) = load(session, [as_claimed(recipient)], services.settings)
        kept = find_content(session, services.settings, recipient)
    MessageBuilder(services.settings).build(claimed)
    composed = compose_content(services.settings, kept)
    assert isinstance(claimed.message, OutboundEmail)
    assert composed.mail
    assert composed.mail.source == claimed.message.content


def test_attachments_are_only_stored(tenant: Tenant, sends: SendsApi) -> None:
    uuid, browser = mail(sends), signed_in(tenant)
    for number, (name, content) in enumerate((("dot.png", PIXEL), ("a.html", SCRIPT.encode())), 1):
        answer = browser.get(path_of(uuid, f"/attachment?number={number}"))
        assert answer.data == content
        assert answer.content_type == "application/octet-stream"
        assert answer.headers["Content-Disposition"] == f"attachment; filename={name}"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    for wrong in ("0", "3", "-1", "x", "1" * 40, ""):
        assert browser.get(path_of(uuid, f"/attachment?number={wrong}")).status_code == 404


def test_secret_values_are_masked_before_and_after_the_outcome(tenant: Tenant, sends: SendsApi) -> None:
    uuid = mail(sends, secret_values=["code"], subject="Code %%code%%", body_text="Code: %%code%%")
    browser = signed_in(tenant)
    for is_settled in (False, True):
        if is_settled:
            settle(tenant, uuid, "delivered")
        for part in PARTS:
            assert b"47110815" not in browser.get(path_of(uuid, part)).data
        page = words(browser.get(path_of(uuid)))
        assert f"Code: {MASK}" in page
        assert f"{MASK} stands for a secret value." in page
        assert f"offer?p={MASK}" in browser.get(path_of(uuid, "/html")).text


def settled(tenant: Tenant, uuid: str) -> Recipient:
    settle(tenant, uuid, "delivered")
    with tenant.services.database.read() as session:
        return session.scalars(select(Recipient).where(Recipient.uuid == uuid)).one()


@each("reason", ["purged", "forgotten"])
def test_a_sentence_says_that_nothing_is_kept(tenant: Tenant, sends: SendsApi, reason: str) -> None:
    uuid = mail(sends)
    recipient = settled(tenant, uuid)
    with tenant.services.database.write() as transaction:
        if reason == "purged":
            delete_content(transaction, [recipient.send_id], [recipient.id], now())
        else:
            step_columns = {"account_id": tenant.id, "recipient_id": recipient.id}
            transaction.add(RecipientStep(**step_columns, time=now(), step=TimelineStep.FORGOTTEN))
    browser = signed_in(tenant)
    page = browser.get(path_of(uuid))
    assert page.status_code == 200
    said = "it was purged at" if reason == "purged" else "the recipient was forgotten"
    assert f"The content is no longer kept: {said}" in words(page)
    assert "Ann" not in page.text
    assert [browser.get(path_of(uuid, part)).status_code for part in PARTS[1:]] == [404] * 4


def test_it_says_when_the_contact_has_changed_or_is_gone(tenant: Tenant, sends: SendsApi) -> None:
    uuid = mail(sends)
    recipient, browser = settled(tenant, uuid), signed_in(tenant)
    assert "The contact" not in words(browser.get(path_of(uuid)))
    with tenant.services.database.write() as transaction:
        later = update(Contact).where(Contact.id == recipient.contact_id)
        transaction.execute(later.values(last_modified_time=now() + timedelta(minutes=1)))
    assert "The contact was changed at" in words(browser.get(path_of(uuid)))
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Recipient).where(Recipient.id == recipient.id).values(contact_id=10**12))
    assert "The contact no longer exists" in words(browser.get(path_of(uuid)))


def test_a_message_that_is_too_large_or_empty_says_so(tenant: Tenant, sends: SendsApi) -> None:
    body = sends.sms(unsubscribe_type="none", body_text="%%text%%", recipients=[{"mobile": new_mobile(), "text": " "}])
    uuid = sends.send(body).uuids[0]
    assert "There is no message: the text is empty once it is filled in." in words(signed_in(tenant).get(path_of(uuid)))


def test_a_text_message_has_its_encoding_characters_and_segments(tenant: Tenant, sends: SendsApi) -> None:
    mobile = new_mobile()
    long = sends.send(
        sends.sms(unsubscribe_type="none", body_text=f"ł{'x' * 80}", recipients=[{"mobile": mobile}])
    ).uuids[0]
    browser = signed_in(tenant)
    page = words(browser.get(path_of(long)))
    assert f"From {sends.number} To {mobile} Encoding UCS-2 Characters 81 Segments 2 Segments ł" in page
    short = sends.send(sends.sms(body_text="Reply STOP", recipients=[{"mobile": mobile}])).uuids[0]
    page = words(browser.get(path_of(short)))
    assert "Encoding GSM 7-bit Characters 10 Segments 1" in page
    assert "HTML" not in page
    assert [browser.get(path_of(short, part)).status_code for part in PARTS[1:]] == [404] * 4


def test_a_mail_without_html_and_attachments_has_neither(tenant: Tenant, sends: SendsApi) -> None:
    uuid, browser = sends.send(sends.email()).uuids[0], signed_in(tenant)
    assert "iframe" not in browser.get(path_of(uuid)).text
    assert [browser.get(path_of(uuid, part)).status_code for part in PARTS] == [200, 404, 404, 200, 404]


@each("level", ["report", "limited"])
def test_keys_that_see_no_contacts_see_no_content(tenant: Tenant, sends: SendsApi, level: str) -> None:
    uuid, browser = mail(sends), signed_in(tenant, level)
    assert "/content" not in browser.get(f"/console/messages/{uuid}").text
    assert "/content" in signed_in(tenant).get(f"/console/messages/{uuid}").text


def test_texts_of_senders_never_become_markup(tenant: Tenant, sends: SendsApi) -> None:
    uuid = mail(sends, body_text=SCRIPT, subject=SCRIPT, from_name=SCRIPT)
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == tenant.id).values(name=SCRIPT + tenant.name))
        send_id = select(Recipient.send_id).where(Recipient.uuid == uuid).scalar_subquery()
        transaction.execute(update(Send).where(Send.id == send_id).values(reply_to=f'"{SCRIPT}"@acme.example'))
    for browser in (signed_in(tenant), operator(tenant.app)):
        text = browser.get(path_of(uuid)).text
        assert "&lt;script&gt;" in text
        assert "<script>" not in text
