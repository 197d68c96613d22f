"""The inbox of the console: what test keys have sent, and what is in folders (docs/console-messages.md#inbox)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select

from app.clock import now
from app.console.inbox import MAX_LINKS, MailLink, checks_of, html_facts
from app.db.models import AuditEntry, Recipient
from app.privacy.files import folders_of_transports
from app.retention.slices import delete_content
from app.sends.delivery.load import load
from app.sends.delivery.message import MessageBuilder
from app.sends.recompose import as_claimed
from app.transports.base import OutboundEmail
from app.transports.email.read_mail import Mail, read_mail
from tests.api.test_console_content import PARTS, PIXEL, mail
from tests.api.test_console_messages import send
from tests.support.browser import linked, operator, signed_in, words
from tests.support.captured import capture
from tests.support.cases import each
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email, new_mobile
from tests.support.testing import refreshed

PATH = "/console/inbox"
FOLDERS = f"{PATH}/folders"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def testing(tenant: Tenant) -> Tenant:
    """The test account."""
    return refreshed(tenant)


def mail_of(tenant: Tenant, uuid: str) -> bytes:
    """The mail that a worker would send to a recipient."""
    services = tenant.services
    with services.database.read() as session:
        recipient = session.scalars(select(Recipient).where(Recipient.uuid == uuid)).one()
        (claimed,) = load(session, [as_claimed(recipient)], services.settings)
    MessageBuilder(services.settings).build(claimed)
    assert isinstance(claimed.message, OutboundEmail)
    return claimed.message.content


def capture_mail(testing: Tenant) -> tuple[int, str]:
    """A captured mail with all parts: its id and the uuid of its recipient."""
    uuid = mail(SendsApi(testing))
    return capture(testing, new_email(), uuid=uuid, content=mail_of(testing, uuid)), uuid


def test_it_is_seen_by_test_keys_and_whom_a_link_has_signed_in(tenant: Tenant, testing: Tenant) -> None:
    address = new_email()
    captured_id = capture(testing, address)
    for browser in (signed_in(testing), linked(tenant), linked(testing)):
        assert f'<a href="{PATH}/{captured_id}">{address}</a>' in browser.get(PATH).text
        assert browser.get(f"{PATH}/{captured_id}").status_code == 200
    all_ = operator(tenant.app)
    assert address in all_.get(f"{PATH}?account={tenant.id}").text
    assert address in all_.get(f"{PATH}?account={testing.id}").text
    assert all_.get(f"{PATH}/{captured_id}").status_code == 200


def test_a_live_key_sees_the_folders_and_nothing_of_tests(tenant: Tenant, testing: Tenant) -> None:
    captured_id = capture(testing, new_email())
    browser = signed_in(tenant)
    assert browser.get(PATH).headers["Location"] == FOLDERS
    assert [browser.get(f"{PATH}/{captured_id}{part}").status_code for part in PARTS] == [404] * 5
    assert len(list(csv.reader(io.StringIO(browser.get(f"{PATH}.csv").text)))) == 1
    assert "what test keys have sent" not in words(browser.get(FOLDERS))


@each(
    ("query", "finds"),
    [
        ("address={email}", "email"),
        ("address={mobile}", "sms"),
        ("type=sms", "sms"),
        ("type=email", "email"),
        ("subject=Welcome", "email"),
        ("uuid={uuid}", "email"),
    ],
)
def test_a_search_finds_by_what_the_api_filters(testing: Tenant, query: str, finds: str) -> None:
    terms = {"email": new_email("ann"), "mobile": new_mobile(), "uuid": str(uuid4())}
    capture(testing, terms["email"], subject="Welcome", uuid=terms["uuid"])
    capture(testing, terms["mobile"], type="sms", subject=None, content=b"Hi")
    page = signed_in(testing).get(f"{PATH}?{query.format(**terms)}").text
    listed = {name for name, value in (("email", terms["email"]), ("sms", terms["mobile"])) if f">{value}</a>" in page}
    assert listed == {finds}


@each(
    ("text", "query"),
    [
        ("ann@example.com", "address=ann%40example.com"),
        ("%2B61 400 000 001", "address=61400000001"),
        ("Your code", "subject=Your%20code"),
        ("0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10", "uuid=0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10"),
    ],
)
def test_a_form_leads_to_its_query(testing: Tenant, text: str, query: str) -> None:
    answer = signed_in(testing).get(f"{PATH}?find={text}&type=&from=&to=")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{PATH}?{query}")


def test_an_empty_inbox_says_what_comes_there(tenant: Tenant, other_tenant: Tenant, testing: Tenant) -> None:
    assert "No message has been sent with a test key yet." in words(linked(tenant).get(PATH))
    assert "No test key yet." in words(linked(other_tenant).get(PATH))
    assert "No message matches." in words(linked(tenant).get(f"{PATH}?subject=x"))


def test_pages_follow_each_other_and_a_file_has_all(testing: Tenant, tenant: Tenant) -> None:
    ids = {capture(testing, new_email(), subject=f"=1+{number}") for number in range(55)}
    browser, path, listed_ids = linked(tenant), PATH, []
    while path:
        page = browser.get(path).text
        listed_ids += [captured_id for captured_id in ids if f'href="{PATH}/{captured_id}"' in page]
        older = [part for part in page.split('<a href="') if 'rel="next"' in part[:400]]
        path = older[0].split('"')[0].replace("&amp;", "&") if older else ""
    assert sorted(listed_ids) == sorted(ids)
    head, *rows = csv.reader(io.StringIO(browser.get(f"{PATH}.csv").text))
    assert {int(row[head.index("id")]) for row in rows} == ids
    assert all(not row[head.index("subject")].startswith("=") for row in rows)
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object == "recipient"
        assert list(session.scalars(select(AuditEntry.action).where(*criteria))) == ["recipient.exported"]


def test_a_page_takes_as_many_statements_for_many_messages_as_for_one(
    testing: Tenant, count_statements: Callable[[], Any]
) -> None:
    browser = signed_in(testing)

    def statements() -> list[str]:
        with count_statements() as counter:
            assert browser.get(PATH).status_code == 200
        return [statement for statement in counter.statements if statement.startswith("SELECT")]

    capture(testing, new_email())
    few = statements()
    for _ in range(20):
        capture(testing, new_email())
    many = statements()
    assert len(few) == len(many) <= 4
    assert not [statement for statement in many if "count(" in statement.lower()]


def test_a_mail_has_its_parts_links_and_checks_and_leads_to_its_message(testing: Tenant) -> None:
    captured_id, uuid = capture_mail(testing)
    browser = signed_in(testing)
    page = browser.get(f"{PATH}/{captured_id}")
    text = words(page)
    assert f'<iframe class="mail" src="{PATH}/{captured_id}/html" sandbox="allow-same-origin" title=' in page.text
    assert page.headers["Content-Security-Policy"].endswith("; frame-src 'self'")
    assert f'<a href="/console/messages/{uuid}">' in page.text
    assert browser.get(f"/console/messages/{uuid}").status_code == 200
    assert "Plain text Hello Ann" in text
    assert "offer https://acme.example/offer?p=47110815 tracked" in text
    assert "no more http://" in text
    for good in (
        "Subject present",
        "Plain text text part present",
        "Unsubscribe List-Unsubscribe is present",
    ):
        assert good in text
    assert "5 words and 1 image" in text, "the pixel counts as none"
    html = browser.get(f"{PATH}/{captured_id}/html")
    assert html.headers["Content-Security-Policy"].startswith("sandbox allow-same-origin; default-src 'none';")
    assert ".gif" not in html.text, "looking at it is no opening"
    assert "/c/" in html.text
    assert ".gif" in browser.get(f"{PATH}/{captured_id}/source").text.replace("=\r\n", "")
    assert f'<img src="{PATH}/{captured_id}/image?number=1">' in html.text
    assert browser.get(f"{PATH}/{captured_id}/image?number=1").data == PIXEL
    attachment = browser.get(f"{PATH}/{captured_id}/attachment?number=1")
    assert (attachment.data, attachment.content_type) == (PIXEL, "application/octet-stream")
    assert browser.get(f"{PATH}/{captured_id}/attachment?number=9").status_code == 404


def test_the_content_of_a_message_leads_to_what_was_captured(testing: Tenant, tenant: Tenant, sends: SendsApi) -> None:
    captured_id, uuid = capture_mail(testing)
    for browser in (linked(tenant), signed_in(testing), operator(tenant.app)):
        page = browser.get(f"/console/messages/{uuid}/content").text
        path = page.split('">View captured message<')[0].rpartition('href="')[2].replace("&amp;", "&")
        assert f'href="{PATH}/{captured_id}' in browser.get(path).text
    page = signed_in(tenant).get(f"/console/messages/{mail(sends)}/content").text
    assert "captured message" not in page


def test_the_message_that_was_captured_is_seen_by_who_sees_the_inbox(
    tenant: Tenant, other_tenant: Tenant, testing: Tenant
) -> None:
    _, uuid = capture_mail(testing)
    paths = [f"/console/messages/{uuid}{part}" for part in ("", "/content", "/content/html")]
    for browser in (linked(tenant), signed_in(testing), operator(tenant.app)):
        assert [browser.get(path).status_code for path in paths] == [200] * 3
    for browser in (signed_in(tenant), signed_in(other_tenant), linked(other_tenant)):
        assert [browser.get(path).status_code for path in paths] == [404] * 3


def test_a_text_message_has_segments_and_no_parts_of_a_mail(testing: Tenant) -> None:
    captured_id = capture(testing, new_mobile(), type="sms", subject=None, sender="ACME", content="Grüße ł".encode())
    browser = signed_in(testing)
    page = words(browser.get(f"{PATH}/{captured_id}"))
    assert "Encoding UCS-2 Characters 7 Segments 1" in page
    assert [browser.get(f"{PATH}/{captured_id}{part}").status_code for part in PARTS[1:]] == [404] * 4


def test_what_senders_wrote_never_becomes_markup(testing: Tenant) -> None:
    content = f'Subject: {SCRIPT}\r\n\r\n{SCRIPT} https://x.example/"><b>'.encode()
    captured_id = capture(testing, "a@example.com", subject=SCRIPT, sender=SCRIPT, content=content)
    for path in (PATH, f"{PATH}/{captured_id}"):
        text = signed_in(testing).get(path).text
        assert "&lt;script&gt;" in text
        assert "<script>" not in text


# ---------------------------------------------------------------------------------------------- folders


def folder_of(tenant: Tenant, kind: str) -> Path:
    """The folder that a transport writes messages of the kind into."""
    with tenant.services.database.read() as session:
        folders = folders_of_transports(session, tenant.services.settings)
    (folder,) = [candidate for candidate in folders if candidate.name == kind]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_messages_in_folders_are_found_and_shown(tenant: Tenant, sends: SendsApi) -> None:
    uuid, mobile = mail(sends), new_mobile()
    text = sends.send(sends.sms(recipients=[{"mobile": mobile}])).uuids[0]
    (folder_of(tenant, "mail") / f"{uuid}.eml").write_bytes(mail_of(tenant, uuid))
    fields = {"uuid": text, "from": "ACME", "to": mobile, "text": "Hi there", "segments": 1}
    (folder_of(tenant, "sms") / f"{text}.json").write_text(json.dumps(fields))
    elsewhere = send(sends, new_email())
    browser = signed_in(tenant)
    page = browser.get(FOLDERS).text
    assert f'href="{FOLDERS}/{uuid}"' in page
    assert f'href="{FOLDERS}/{text}"' in page
    assert f'href="{FOLDERS}/{elsewhere}"' not in page
    head, *rows = csv.reader(io.StringIO(browser.get(f"{FOLDERS}.csv").text))
    in_folder = {row[head.index("uuid")]: row[head.index("in_folder")].lower() for row in rows}
    assert in_folder == {uuid: "true", text: "true", elsewhere: "false"}
    page = words(browser.get(f"{FOLDERS}/{uuid}"))
    assert "Grüße, Ann written to a folder" in page
    assert "offer https://acme.example/offer?p=47110815 tracked" in page
    assert [browser.get(f"{FOLDERS}/{uuid}{part}").status_code for part in PARTS] == [200] * 5
    assert "Text Hi there From ACME" in words(browser.get(f"{FOLDERS}/{text}"))
    assert [browser.get(f"{FOLDERS}/{text}{part}").status_code for part in PARTS] == [200, *[404] * 4]
    assert [browser.get(f"{FOLDERS}/{elsewhere}{part}").status_code for part in PARTS] == [404] * 5


@each("content", [b"", b"no json", b"[]", b"{}", b"\xff"])
def test_a_file_that_no_transport_has_written_does_not_exist(tenant: Tenant, sends: SendsApi, content: bytes) -> None:
    text = sends.send(sends.sms()).uuids[0]
    (folder_of(tenant, "sms") / f"{text}.json").write_bytes(content)
    assert signed_in(tenant).get(f"{FOLDERS}/{text}").status_code == 404


@each("purged", [False, True])
def test_a_file_that_may_have_secret_values_is_for_operators(tenant: Tenant, sends: SendsApi, purged: bool) -> None:
    uuid = mail(sends, secret_values=[] if purged else ["code"])
    (folder_of(tenant, "mail") / f"{uuid}.eml").write_bytes(b"Subject: Code 47110815\r\n\r\n47110815")
    if purged:
        with tenant.services.database.write() as transaction:
            recipient = transaction.scalars(select(Recipient).where(Recipient.uuid == uuid)).one()
            delete_content(transaction, [recipient.send_id], [recipient.id], now())
    for part in PARTS:
        answer = signed_in(tenant).get(f"{FOLDERS}/{uuid}{part}")
        assert answer.status_code == 403
        assert "47110815" not in answer.text
    assert "47110815" in operator(tenant.app).get(f"{FOLDERS}/{uuid}").text


# ---------------------------------------------------------------------------------------------- links and checks


def read(html: str | None = None, text: str | None = None, **headers: str) -> Mail:
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head_only = read_mail(f"{head}\r\n".encode())
    return Mail(head_only.source, head_only.headers, html, text, [])


def warnings(mail: Mail, *links: MailLink) -> list[str]:
    """The names of what is not good."""
    return [check.name for check in checks_of(mail, html_facts(mail.html or ""), links) if not check.is_good]


def test_a_good_mail_passes_and_a_bad_one_says_why() -> None:
    words_ = " ".join(["word"] * 20)
    head = {"Subject": "Hi", "DKIM_Signature": "x", "List_Unsubscribe": "<x>", "List_Unsubscribe_Post": "x"}
    good = read(f'<p>{words_} <img src="cid:x" alt=""></p>', "text", **head)
    assert warnings(good, MailLink("acme.example", "https://www.acme.example/", "https://www.acme.example/")) == []
    bad = read('<img src="https://acme.example/a.png">' + " " * 110_000)
    link = MailLink("https://bank.example/login", "http://evil.example", "http://evil.example")
    assert warnings(bad, link) == [
        *("Subject", "DKIM signature", "Unsubscribe", "Plain text", "Text and images", "Image descriptions"),
        *("HTML size", "Link texts", "HTTPS links"),
    ]


@each(
    ("text", "target", "misleads"),
    [
        ("Offers", "https://acme.example/", False),
        ("acme.example", "https://shop.acme.example/x", False),
        ("https://www.acme.example/x", "https://acme.example/", False),
        ("http://acme.example:80", "https://acme.example/", False),
        ("acme.example", "https://evil.example/", True),
        ("ACME.example/login?x", "https://acme.example.evil.example/", True),
        ("acme.example", "https://[", True),
        ("ann@acme.example", "mailto:ann@acme.example", False),
    ],
)
def test_a_text_that_names_another_site_misleads(text: str, target: str, misleads: bool) -> None:
    assert MailLink(text, target, target).misleads is misleads


def test_links_have_the_texts_that_readers_see() -> None:
    facts = html_facts('<a href="https://x.example"> Read <b>more</b><img alt="now"></a><a name="x">no</a> a&amp;b')
    assert [(link.target, link.text) for link in facts.links] == [("https://x.example", "Read morenow")]
    assert (facts.images, facts.without_alt, facts.remote_images, facts.words) == (1, 0, 0, 4)
    assert len(html_facts('<a href="https://x.example">x</a>' * 500).links) == MAX_LINKS
