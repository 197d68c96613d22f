"""Reading a submitted mail (docs/smtp-submission.md#the-mail): what becomes of its parts and fields, and what is
refused with which words."""

from __future__ import annotations

import base64
import contextlib
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.content.attachments import extension_fits, is_valid_name
from app.errors import CATALOGUE, ServiceError
from app.sends.accept.draft import Limits
from app.submission.mail import SubmittedMail, read_submission
from app.submission.replies import refusal_reply, reply, status_of

LIMITS = Limits(5, 10_000)
HEAD = "From: Ann <ann@acme.example>\r\nSubject: s\r\n"
PNG = b"\x89PNG\r\n\x1a\n"


def read(text: str | bytes) -> SubmittedMail:
    return read_submission(text if isinstance(text, bytes) else text.encode(), LIMITS)


def refused(text: str | bytes) -> str:
    """The whole answer to a mail."""
    with pytest.raises(ServiceError) as caught:
        read(text)
    return refusal_reply(caught.value)


def multipart(subtype: str, *parts: str, head: str = HEAD) -> str:
    body = "".join(f"--b\r\n{part}\r\n" for part in parts)
    return f'{head}MIME-Version: 1.0\r\nContent-Type: multipart/{subtype}; boundary="b"\r\n\r\n{body}--b--\r\n'


def part(type_: str, content: str = "x", **fields: str) -> str:
    lines = "".join(f"Content-{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"Content-Type: {type_}\r\n{lines}\r\n{content}"


TEXT, HTML = part("text/plain", "text"), part("text/html", "<p>html</p>")
MIXED = f"{HEAD}Content-Type: multipart/mixed; boundary=c\r\n\r\n"


def test_the_fields_of_a_mail_without_mime() -> None:
    mail = read(f"{HEAD}Reply-To: bob@acme.example\r\nMessage-ID: <1@acme.example>\r\n\r\nHello\r\n%%a%%\r\n")
    header = mail.header
    assert (header.from_name, header.from_address, header.subject) == ("Ann", "ann@acme.example", "s")
    assert (header.reply_to, header.message_id, header.options) == ("bob@acme.example", "<1@acme.example>", {})
    assert header.fields == {"References": "<1@acme.example>"}
    assert (mail.text, mail.html, mail.attachments) == ("Hello\n%%a%%\n", None, ())


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("=?utf-8?q?Gr=C3=BC=C3=9Fe?=", "Grüße"),
        ("=?utf-8?b?R3LDvMOfZQ==?= =?iso-8859-1?q?_=E9?=", "Grüße é"),
        ("Grüße\r\n and more", "Grüße and more"),
        ("=?unknown?q?a?=", "=?unknown?q?a?="),
        ("=?utf-8?b?a?=", "=?utf-8?b?a?="),
        ("=?utf-8?q?a =?utf-8?q?b?=", "=?utf-8?q?a b"),
        ("=?utf-8?b?w7w=?= =?utf-8?b?a?= x =?utf-8?q?=C3?==?UTF-8?Q?=BC?=", "=?utf-8?b?w7w=?= =?utf-8?b?a?= x ü"),
        ("a =?utf-8?q?=0D=0ABcc:_x?=", "a Bcc: x"),
        ("tab\tand\x00nul", "tab and nul"),
    ],
)
def test_a_subject_is_decoded_to_one_line(written: str, text: str) -> None:
    assert read(f"From: ann@acme.example\r\nSubject: {written}\r\n\r\nx").header.subject == text


def test_bodies_are_found_in_whatever_contains_them() -> None:
    related = multipart("related", HTML, part("image/png", "x"), head="").replace('"b"', '"c"').replace("--b", "--c")
    inner = multipart("alternative", TEXT, related.strip(), head="").replace('"b"', '"d"').replace("--b\r\n", "--d\r\n")
    for text in (
        multipart("alternative", TEXT, HTML),
        multipart("mixed", TEXT, HTML),
        multipart("alternative", TEXT, multipart("related", HTML, head="").replace("--b", "--c").replace('"b"', '"c"')),
        multipart("mixed", inner.replace("--b--", "--d--")),
    ):
        mail = read(text)
        assert (mail.text, mail.html) == ("text", "<p>html</p>"), text


def test_texts_beyond_the_first_are_files() -> None:
    mail = read(multipart("mixed", TEXT, HTML, part("text/plain", "more"), part('text/html; name="a.html"', "<p>")))
    assert (mail.text, mail.html) == ("text", "<p>html</p>")
    assert [(each.name, each.mime_type, each.content) for each in mail.attachments] == [
        ("text-1.txt", "text/plain", b"more"),
        ("a.html", "text/html", b"<p>"),
    ]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"Disposition": 'attachment; filename="a b.pdf"'}, "a b.pdf"),
        ({"Disposition": "attachment; filename*=utf-8''%C3%BCber.pdf"}, "über.pdf"),
        ({"Disposition": 'attachment; filename="=?utf-8?q?=C3=BCber.pdf?="'}, "über.pdf"),
        ({"Disposition": "attachment; filename*0=a; filename*1=b.pdf"}, "ab.pdf"),
        ({"Disposition": "attachment"}, "application-1.pdf"),
        ({}, "application-1.pdf"),
    ],
)
def test_an_attachment_has_its_name_or_gets_one(fields: dict[str, str], name: str) -> None:
    encoded = {"Transfer_Encoding": "base64", **fields}
    (file,) = read(multipart("mixed", TEXT, part("application/pdf", "JVBERg==", **encoded))).attachments
    assert (file.name, file.mime_type, file.content, file.content_id) == (name, "application/pdf", b"%PDF", None)


def test_an_attached_mail_is_attached_as_it_is() -> None:
    attached = "From: a@b.example\r\nSubject: =?utf-8?q?=C3=BC?=\r\nContent-Type: text/plain\r\n\r\nFrom here\r\n.\r\n"
    (file,) = read(multipart("mixed", TEXT, part("message/rfc822", attached))).attachments
    assert (file.name, file.mime_type) == ("message-1.eml", "message/rfc822")
    assert file.content.rstrip(b"\r\n") == attached.rstrip("\r\n").encode()


@pytest.mark.parametrize("reference", ["logo@app", "LOGO%40APP", "logo&#64;app"])
def test_the_html_refers_to_the_images_by_their_new_ids(reference: str) -> None:
    """An id is the same whenever the mail is read, so that the mail is known again."""
    content_id = "LOGO@APP" if reference.isupper() else "logo@app"
    html = part("text/html", f'<img src="cid:{reference}"> cid:other')
    image = part("image/png", base64.b64encode(PNG).decode(), ID=f"<{content_id}>", Transfer_Encoding="base64")
    mail, again = read(multipart("related", html, image)), read(multipart("related", html, image))
    (file,) = mail.attachments
    assert file.content_id
    assert mail.html == f'<img src="cid:{file.content_id}"> cid:other'
    assert again == mail


@pytest.mark.parametrize(
    ("type_", "content", "text"),
    [
        ("text/plain", "Grüße".encode(), "Grüße"),
        ("text/plain; charset=us-ascii", "Grüße".encode(), "Grüße"),
        ("text/plain; charset=iso-8859-1", "Grüße".encode("iso-8859-1"), "Grüße"),
        ('text/plain; charset="windows-1252"', "“a”".encode("windows-1252"), "“a”"),
        ("text/plain; charset=utf-16-le", "Ünal".encode("utf-16-le"), "Ünal"),
    ],
)
def test_a_text_is_decoded_by_its_charset(type_: str, content: bytes, text: str) -> None:
    assert read(f"{HEAD}Content-Type: {type_}\r\n\r\n".encode() + content).text == text


# Fields.


def test_fields_stay_or_go() -> None:
    fields = read(
        "From: ann@acme.example\r\nTo: Ann <ann@example.com>,\r\n\tbob@example.com\r\nTo: cat@example.com\r\n"
        "Cc: =?utf-8?q?Zo=C3=AB?= <zoe@example.com>\r\nBcc: hidden@example.com\r\nSubject: s\r\n"
        "In-Reply-To: <0@a>\r\nreferences: <0@a>\r\n <1@a>\r\nMessage-ID: <2@acme.example>\r\n"
        "Importance: high\r\nAuto-Submitted: auto-replied\r\nX-Ticket: =?utf-8?q?Nr=2E_=C3=BC?=\r\n"
        "X-Ticket: 2\r\nX-SMTPAPI: {}\r\nX-PM-Tag: a\r\nX-Mailgun-Tag: a\r\nReceived: from a\r\nDate: today\r\n"
        "List-Unsubscribe: <mailto:a@b>\r\nSender: eve@example.com\r\nDKIM-Signature: a\r\nX-TMS-List: 3\r\n\r\nx"
    ).header.fields
    assert fields == {
        "To": "Ann <ann@example.com>,\tbob@example.com, cat@example.com".replace("\t", " "),
        "Cc": "=?utf-8?q?Zo=C3=AB?= <zoe@example.com>",
        "In-Reply-To": "<0@a>",
        "References": "<0@a> <1@a> <2@acme.example>",
        "Importance": "high",
        "Auto-Submitted": "auto-replied",
        "X-Ticket": "Nr. ü, 2",
    }


def test_long_references_keep_the_first_and_the_last() -> None:
    ids = [f"<{number}@{'a' * 90}>" for number in range(100)]
    written = "\r\n ".join(ids)
    kept = read(f"{HEAD}References: {written}\r\nMessage-ID: <m@a>\r\n\r\nx").header.fields["References"].split()
    assert (kept[0], kept[-1], len(" ".join(kept)) <= 4000) == (ids[0], "<m@a>", True)
    assert kept[1:-1] == ids[-len(kept) + 2 :]


@pytest.mark.parametrize(
    ("value", "address", "field"),
    [
        ("bob@acme.example", "bob@acme.example", None),
        ("<bob@acme.example>", "bob@acme.example", None),
        ("Bob <bob@acme.example>", "bob@acme.example", "Bob <bob@acme.example>"),
        ("a@acme.example, b@acme.example", "a@acme.example", "a@acme.example, b@acme.example"),
    ],
)
def test_the_reply_address(value: str, address: str, field: str | None) -> None:
    header = read(f"{HEAD}Reply-To: {value}\r\n\r\nx").header
    assert (header.reply_to, header.fields.get("Reply-To")) == (address, field)


def test_options_become_attributes() -> None:
    header = read(
        f"{HEAD}X-TMS-List: 12\r\nx-tms-group: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nX-TMS-Track-Opens: off\r\n"
        "X-TMS-Track-Clicks: ON\r\nX-TMS-Include-Unsubscribed: yes\r\nX-TMS-Priority: high\r\n"
        "X-TMS-Transport: bulk\r\nX-TMS-Tags: receipt, year 2026\r\n\r\nx"
    ).header
    assert header.options == {
        "list_id": 12,
        "group_name": "Grüße",
        "track_opens": False,
        "track_clicks": True,
        "include_unsubscribed": True,
        "priority": "high",
        "transport": "bulk",
        "tags": ("receipt", "year 2026"),
    }
    assert header.fields == {}


NAMES = (
    "X-TMS-List, X-TMS-Group, X-TMS-Tags, X-TMS-Track-Opens, X-TMS-Track-Clicks, X-TMS-Include-Unsubscribed, "
    "X-TMS-Priority, X-TMS-Transport"
)
NAME_RULE = CATALOGUE["invalid_attachment_name"].developer_message
NO_FROM = "550 5.1.7 The mail needs one From field with one email address. (invalid_from_address)"
REFUSED: dict[str, tuple[Any, str]] = {
    "no sender": ("Subject: s\r\n\r\nx", NO_FROM),
    "no address in the sender": ("From: Ann\r\n\r\nx", NO_FROM),
    "two addresses in the sender": ("From: a@acme.example, b@acme.example\r\n\r\nx", NO_FROM),
    "two senders": ("From: a@acme.example\r\nFrom: b@acme.example\r\n\r\nx", NO_FROM),
    "a long name": (
        f"From: {'a' * 256} <a@acme.example>\r\n\r\nx",
        "550 5.6.0 The name in From has 256 characters; at most 255 are accepted. (too_long)",
    ),
    "a long subject": (
        f"From: a@acme.example\r\nSubject: {'a' * 999}\r\n\r\nx",
        "550 5.6.0 Subject has 999 characters; at most 998 are accepted. (too_long)",
    ),
    "no address to reply to": (
        f"{HEAD}Reply-To: a, <b@acme.example>\r\n\r\nx",
        "550 5.6.0 Reply-To must have email addresses only. (invalid_reply_to_address)",
    ),
    "a tag twice": (
        f"{HEAD}X-TMS-Tags: a, b, a\r\n\r\nx",
        "550 5.6.0 X-TMS-Tags must occur once and be up to 5 tags of 50 characters, separated by commas, none with a "
        "slash at its end. (invalid_string)",
    ),
    "a tag that ends with a slash": (
        f"{HEAD}X-TMS-Tags: a, b/\r\n\r\nx",
        "550 5.6.0 X-TMS-Tags must occur once and be up to 5 tags of 50 characters, separated by commas, none with a "
        "slash at its end. (invalid_string)",
    ),
    "a list that is no number": (
        f"{HEAD}X-TMS-List: Customers\r\n\r\nx",
        "550 5.6.0 X-TMS-List must occur once and be the id of a list. (invalid_string)",
    ),
    "an option twice": (
        f"{HEAD}X-TMS-Priority: high\r\nX-TMS-Priority: high\r\n\r\nx",
        "550 5.6.0 X-TMS-Priority must occur once and be high or normal. (invalid_string)",
    ),
    "an option that there is not": (
        f"{HEAD}X-TMS-Lists: 1\r\n\r\nx",
        f"550 5.6.0 There is no field x-tms-lists; there are {NAMES}. (unexpected_field)",
    ),
    "a long field": (
        f"{HEAD}X-Long: {'a' * 4001}\r\n\r\nx",
        "550 5.6.0 The field X-Long is too long; at most 100 of 4000 characters are kept. (too_long)",
    ),
    "a field that nobody reads": (
        f"{HEAD}X-Long: {'a' * 70_000}\r\n\r\nx",
        "550 5.6.0 The field X-Long has more than 65536 characters. (too_long)",
    ),
    "many fields": (
        HEAD + "".join(f"X-{number}: a\r\n" for number in range(101)) + "\r\nx",
        "550 5.6.0 The mail has too many fields of its own; at most 100 of 4000 characters are kept. (too_long)",
    ),
    "a signed mail": (
        multipart("signed", TEXT, part("application/pgp-signature")),
        "550 5.6.0 The part multipart/signed cannot be sent; multipart/mixed, multipart/alternative, "
        "multipart/related can. (validation_error)",
    ),
    "a container without a boundary": (
        f"{HEAD}Content-Type: multipart/mixed\r\n\r\nx",
        "550 5.6.0 The part multipart/mixed has no boundary, so its parts cannot be told apart. (validation_error)",
    ),
    "a container without a boundary in a charset that is slow to decode": (
        f"{HEAD}Content-Type: multipart/mixed; charset=idna\r\n\r\n\xfc",
        "550 5.6.0 The part multipart/mixed has no boundary, so its parts cannot be told apart. (validation_error)",
    ),
    "an invitation": (
        multipart("alternative", TEXT, part("text/calendar; method=REQUEST")),
        "550 5.6.0 The part text/calendar cannot be a body: text/plain and text/html are the only alternatives. "
        "Attach it as a file. (validation_error)",
    ),
    "an unknown charset": (
        f"{HEAD}Content-Type: text/plain; charset=klingon\r\n\r\nx",
        "550 5.6.0 The part text/plain is not text in the charset klingon. (invalid_string)",
    ),
    "a charset that is slow to decode": (
        f"{HEAD}Content-Type: text/plain; charset=punycode\r\n\r\nx",
        "550 5.6.0 The part text/plain is not text in the charset punycode. (invalid_string)",
    ),
    "a wrong charset": (
        f"{HEAD}Content-Type: text/plain; charset=utf-8\r\n\r\n".encode() + b"\xe9",
        "550 5.6.0 The part text/plain is not text in the charset utf-8. (invalid_string)",
    ),
    "half of a pair of surrogates": (
        f"{HEAD}Content-Type: text/plain; charset=utf-7\r\n\r\n+2AA-",
        "550 5.6.0 The part text/plain is not text in the charset utf-7. (invalid_string)",
    ),
    "a NUL": (
        f"{HEAD}\r\na\x00b",
        "550 5.6.0 The part text/plain must not contain the character U+0000. (invalid_string)",
    ),
    "a long body": (
        f"{HEAD}\r\n" + "a" * (1024 * 1024 + 1),
        "550 5.6.0 The part text/plain has more than 1048576 bytes in UTF-8. (too_long)",
    ),
    "an unknown encoding": (
        multipart("mixed", TEXT, part("application/pdf", Transfer_Encoding="x-zip")),
        "550 5.6.0 The part application/pdf has the unknown encoding x-zip. (validation_error)",
    ),
    "wrong base64": (
        multipart("mixed", TEXT, part("application/pdf", "a", Transfer_Encoding="base64")),
        "550 5.6.0 The part application/pdf is not valid base64. (invalid_attachment_content)",
    ),
    "names of attachments": (
        multipart(
            "mixed",
            TEXT,
            part("application/pdf", Disposition='attachment; filename="a/b.pdf"'),
            part("application/pdf", Disposition='attachment; filename="a.exe"'),
        ),
        f"550-5.6.0 The attachment a/b.pdf cannot have this name. {NAME_RULE} (invalid_attachment_name)\r\n"
        "550 5.6.0 The extension of the attachment a.exe does not fit the MIME type application/pdf. "
        "(invalid_attachment_extension)",
    ),
    "two attachments of a name": (
        multipart("mixed", TEXT, *[part("text/csv", Disposition='attachment; filename="a.csv"')] * 2),
        "550 5.6.0 name: another attachment of this recipient has the name a.csv. (invalid_attachment_name)",
    ),
    "many attachments": (
        multipart("mixed", TEXT, *[part("application/pdf")] * 6),
        "550 5.6.0 attachments: a recipient would get 6 files; at most 5 are accepted. (too_long)",
    ),
    "large attachments": (
        multipart("mixed", TEXT, part("application/pdf", "a" * 10_001)),
        "550 5.6.0 attachments: a recipient would get 10001 bytes; at most 10000 are accepted. (too_long)",
    ),
    "many parts": (
        multipart("mixed", *[part("application/pdf")] * 501),
        "550 5.6.0 The mail has more than 500 parts. (validation_error)",
    ),
    "many parts of an attached mail": (
        multipart("mixed", part("message/rfc822", MIXED + "--c\r\nX: y\r\n\r\n" * 498)),
        "550 5.6.0 The mail has more than 500 parts. (validation_error)",
    ),
    "many parts, behind which nothing is read": (
        multipart("mixed", *[part("application/pdf")] * 501, part("application/pdf", Description="x" * 5000)),
        "550 5.6.0 The mail has more than 500 parts. (validation_error)",
    ),
    "containers in containers": (
        HEAD + "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n" * 31,
        "550 5.6.0 The mail has more than 1000000 lines, or more than 30 parts that have parts. (validation_error)",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_a_send_cannot_have_is_refused_by_its_name(fault: str) -> None:
    text, answer = REFUSED[fault]
    assert refused(text) == answer


# Drawn at random.

NAME = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=40)
BODY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x00"), max_size=400)


@given(subject=NAME, name=NAME, text=BODY, html=BODY, files=st.lists(st.binary(max_size=300), max_size=4))
def test_what_the_library_writes_is_read_whole(
    subject: str, name: str, text: str, html: str, files: list[bytes]
) -> None:
    message = EmailMessage()
    message["Subject"] = subject
    message["From"] = "ann@acme.example"
    message.set_content(text)
    message.add_alternative(html, subtype="html")
    for number, content in enumerate(files):
        message.add_attachment(content, maintype="application", subtype="pdf", filename=f"{number}.pdf")
    mail = read(message.as_bytes())
    assert (mail.header.subject or "").split() == subject.split()
    assert (mail.text or "").rstrip("\n") == text.rstrip("\n")
    assert (mail.html or "").rstrip("\n") == html.rstrip("\n")
    assert [each.content for each in mail.attachments] == files


PIECES = st.sampled_from(
    [
        *(
            "\r\n",
            "--b",
            "--b--",
            "--b\r\n",
            " ",
            "a",
            ";",
            '"',
            "=?utf-8?q?a?=",
            "é",
            "\x00",
            "cid:a",
            "<a@b.example>",
        ),
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n",
        "Content-Type: multipart/alternative; boundary=b\r\n\r\n",
        "Content-Type: message/rfc822\r\n\r\n",
        "Content-Type: message/delivery-status\r\n\r\n",
        "Content-Type: text/html; charset=utf-16\r\n\r\n",
        "Content-Type: ; ; =\r\n",
        "Content-Disposition: attachment; filename*=x'y'%zz; filename=\r\n",
        "Content-Transfer-Encoding: base64\r\n\r\n",
        "Content-ID: <a>\r\n",
        "To: (((\r\n",
        "From: ann@acme.example\r\n",
        "X-TMS-List: 1\r\n",
    ]
)


@given(head=st.sampled_from([HEAD, ""]), pieces=st.lists(PIECES, max_size=40))
def test_whatever_arrives_is_read_or_refused(head: str, pieces: list[str]) -> None:
    """What is read fits the rules of a send and of the databases."""
    with contextlib.suppress(ServiceError):
        mail = read(head + "".join(pieces))
        for each in mail.attachments:
            assert is_valid_name(each.name)
            assert extension_fits(each.mime_type, each.name)
        texts = [mail.text, mail.html, mail.header.subject, mail.header.from_name, *mail.header.fields.values()]
        for text in filter(None, texts):
            assert "\x00" not in text
            text.encode()
        for value in mail.header.fields.values():
            assert value == " ".join(value.splitlines())


@given(st.binary(max_size=500))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with contextlib.suppress(ServiceError):
        read(raw)


# Answers.


def test_every_code_of_the_catalogue_has_a_status() -> None:
    """Those of the service itself ask to try again, all others are final."""
    temporary = {code for code in CATALOGUE if status_of(code).code < 500}
    assert temporary == {"too_many_requests", "service_unavailable"}
    for code in CATALOGUE:
        status = status_of(code)
        assert status.enhanced[0] == str(status.code)[0], code


def test_an_answer_has_short_lines_of_ascii() -> None:
    error = ServiceError("invalid_string", detail="é\r\n" + "x" * 2000)
    answer = refusal_reply(error)
    assert answer.startswith("550 5.6.0 \\xe9 xxx")
    assert answer.endswith("xxx (invalid_string)")
    assert len(answer) < 510
    assert reply(status_of("required"), ["a", "b", "c"]) == "550-5.6.0 a\r\n550-5.6.0 b\r\n550 5.6.0 c"
