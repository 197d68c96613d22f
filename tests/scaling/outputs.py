"""Functions that make text or bytes of the text of clients and strangers, which `test_outputs` measures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import orjson

from app.content.plain_text import plain_text
from app.content.render import MAX_BYTES, RenderingTooLong, Template
from app.content.values import decode, encode, recipient_values
from app.errors import ServiceError
from app.http.errors import error_body
from app.inbound.domain_reports.documents import MAX_ROW_BYTES, UnreadableReport
from app.inbound.domain_reports.take import read_reports_about_domain
from app.inbound.email.fields import field_blocks, parse, parts_of_type
from app.inbound.email.receive import read_reports
from app.messages.difference import compare, lines_of
from app.query.grammar import parse_collection
from app.transports.email.dkim import relaxed_body
from app.transports.email.mime import Attachment, address_header, disposition_header, encode_attachment, text_header
from app.transports.email.read_mail import read_mail, with_images
from app.transports.email.smtp import _dot_stuffed
from app.transports.email.smtp_session import Reply
from app.transports.sms import segments
from schemas.sends import load_send
from tests.scaling.inbound import ELEMENTS, JSON, MEMBERS, PARTS, STATUS, STATUSES, XML
from tests.scaling.reader import KIB, Reader
from tests.scaling.requests import LIMITS, RESOURCE
from tests.scaling.sends import HTML, MARKER, MARKUP, PROSE, REDACTION, TEXT, WORDS_OF_A_BODY, _mail

LONG = 128 * KIB
IMAGE = "content_" + "0" * 32
IMAGES = "/console/messages/12345678-1234-1234-1234-123456789012/content/image?number="
VALUE = "<" * 10_000
"""The longest, of what is longest as HTML."""
ERRORS = 350 * KIB
"""A hundred of them, with a thousand characters of the request in each text."""


@dataclass(frozen=True)
class Writer:
    """A function with the words of its texts. Of n bytes it makes at most `times` n and `also` bytes, which stands for
    a limit of its own."""

    name: str
    write: Callable[[str], str | bytes | object]
    words: tuple[str, ...]
    times: float
    also: int = 0
    largest: int = LONG
    head: str = ""
    tail: str = ""

    @property
    def texts(self) -> Reader:
        """The texts to measure it with."""
        return Reader(self.name, self.write, self.words, self.largest, self.head, self.tail)

    def size(self, text: str) -> int:
        """The size in bytes of what is made of a text. An object counts as its JSON."""
        made = self.write(text)
        if isinstance(made, str):
            return len(made.encode("utf-8", "replace"))
        return len(made if isinstance(made, bytes) else orjson.dumps(made))


def _rendered(source: str) -> str:
    """A body that may repeat a long value and a long name."""
    values, names = recipient_values({"a": VALUE, "b": VALUE}, html_encoded=False), {"a": "x" * 255}
    made = ""
    for render in (Template(source).html, Template(source).text):
        with suppress(RenderingTooLong):
            made += render(values, names)
    return made


def _errors_of_a_send(text: str) -> object:
    try:
        load_send(orjson.loads(text), "email", LIMITS)
    except ServiceError as error:
        return error_body(error, "id", "POST", "/v1/transactional-sends")
    except orjson.JSONDecodeError:
        pass
    return None


def _errors_of_a_query(text: str) -> object:
    pairs = [(name, value) for name, _, value in (part.partition("=") for part in text.split("&"))]
    try:
        parse_collection(pairs, RESOURCE)
    except ServiceError as error:
        return [invalid.developer_message for invalid in error.errors]
    return None


def _report(text: str) -> object:
    with suppress(UnreadableReport):
        return [report.content for report in read_reports_about_domain(text.encode())]
    return None


def _fields(text: str) -> str:
    """The fields of a report's parts for machines."""
    parts = parts_of_type(parse(text.encode()), "message/delivery-status")
    return "".join(str(block) for part in parts for block in field_blocks(part))


def _details(text: str) -> str:
    return "".join(report.detail for report in read_reports(parse(text.encode())))


def _shown_mail(html: str) -> str:
    """The parts of a mail on a page."""
    mail = read_mail(_mail(html))
    return (mail.html or "") + (mail.text or "") + "".join(map("".join, mail.headers))


def _difference(text: str) -> list[str]:
    hunks, _ = compare(lines_of(text[: len(text) // 2]), lines_of(text[len(text) // 2 :]))
    return [line.text for hunk in hunks for line in hunk]


WRITERS = (
    Writer("rendered bodies", _rendered, (*MARKUP, "%%attachment:a%%"), 6, 2 * MAX_BYTES),
    Writer("text as HTML", encode, ("<", "&", '"', "'", "a", "é"), 6),
    Writer("HTML as text", decode, ("&lt;", "&#65;", "&#x41;", "&nvlt;", "&bne;", "&ThickSpace;", "&"), 1),
    Writer("the text of HTML", plain_text, (*HTML, "<ol><li>", "<ul><li>", "<q>", "<img alt=a>", "<br>"), 5),
    Writer("tracked links of HTML", lambda text: MARKER.with_links(text, "html_email", 1, {}), HTML, 4),
    Writer("tracked links of a text", lambda text: MARKER.with_links(text, "text_email", 1, {}), TEXT, 6),
    Writer(
        "images of HTML",
        lambda text: with_images(text, {IMAGE: 1}, IMAGES),
        (f"<img src=cid:{IMAGE}>", f"cid:{IMAGE} ", "cid:", "a"),
        2,
    ),
    Writer("a mail of both bodies", _mail, WORDS_OF_A_BODY, 6.5, KIB),
    Writer("a mail that is shown", _shown_mail, WORDS_OF_A_BODY, 3, KIB),
    Writer(
        "an attachment", lambda text: encode_attachment(Attachment("a", "text/plain", text.encode())).body, ("a",), 1.4
    ),
    Writer("a subject", lambda text: text_header("Subject", text), PROSE, 3),
    Writer("a sender's name", lambda text: address_header("From", "a@b.example", text), PROSE, 3, KIB, 4 * KIB),
    Writer("the name of a file", lambda text: disposition_header("attachment", text), ("a", "é", "%", '"'), 5),
    Writer("a signed body", lambda text: relaxed_body(text.encode()), WORDS_OF_A_BODY, 1, 2),
    Writer("a mail on its way", lambda text: _dot_stuffed(text.encode()), ("\r\n.", ".", "\n.", "a"), 2, 8),
    Writer("parts of a text message", segments.split, ("a", "€", "é", "😀", "\n"), 6, KIB),
    Writer("a reply of a server", lambda text: Reply.from_wire(550, text.encode()).result().reply, ("a", "\0"), 1, KIB),
    Writer(
        "words without names of the installation",
        REDACTION.redact,
        ("relay.example", "localhost ", "10.0.0.1 ", "::1 ", "/srv/mail/", "relay ", "@", "-"),
        4,
    ),
    Writer("two versions of a body", _difference, ("a\n", "b\n", "\n", "é\n"), 4),
    Writer(
        "errors of a send",
        _errors_of_a_send,
        ('{"email": 1},', "{},", '{"contact_id": "x"},', '{"a": {"b": null}},', '"x",'),
        1,
        ERRORS,
        head='{"type": "email", "recipients": [',
        tail="{}]}",
    ),
    Writer("errors of a query", _errors_of_a_query, ("a=1&", "INTEGER=x&", "sort=x&", "fields=x,&", "é&"), 3, ERRORS),
    Writer("sources of mail", _report, ELEMENTS, 1, MAX_ROW_BYTES + 2 * KIB, head=XML),
    Writer("failures of sessions", _report, MEMBERS, 1, MAX_ROW_BYTES + 32 * KIB, head=JSON),
    Writer("a report of a mail server", _fields, (*STATUSES, *PARTS), 2, KIB, head=STATUS),
    Writer("what a mail server says", _details, STATUSES, 1, 64 * KIB, head=STATUS),
)
