"""Readers and writers of content at the acceptance of a send and at the composition of its mails."""

from __future__ import annotations

from datetime import UTC, datetime

from app.content.conditionals import unconditional_text
from app.content.conditions import OPERATORS, parse_conditions
from app.content.invalid_markup import find_invalid_markup
from app.content.plain_text import Tag, _text, _text_without_tags, parse_html
from app.content.render import Template
from app.content.values import WildcardValue, decode, encode, recipient_values
from app.messages.difference import compare, lines_of
from app.recipients.redaction import Redaction
from app.sends.outcomes.attempt_result import sanitize_result
from app.sends.outcomes.refusals import blocks_address, blocks_number
from app.sends.secret_values import SecretValues
from app.tracking.feedback_channels import Instrumenter
from app.tracking.links import has_secret, links_in_source, replace_in_html, replace_in_text
from app.transports.base import DeliveryResult
from app.transports.email import mime
from app.transports.email.dkim import relaxed_body, relaxed_field
from app.transports.email.mime import (
    Attachment,
    address_header,
    disposition_header,
    encode_attachment,
    identifier_header,
    text_entity,
    text_header,
)
from app.transports.email.smtp import _dot_stuffed
from app.transports.email.smtp_session import Reply
from app.transports.sms import segments
from tests.scaling.reader import KIB, MIB, Reader

REDACTION = Redaction(frozenset({"relay.example", "relay"}), frozenset({"/srv/mail"}))
BODY = 256 * KIB
"""Less than the longest: beyond it the machine's own stores show in what is nearly as quick as copying."""
NO_BOUND = 2**40
HTML = (
    "<a ",
    "<p>",
    "</p>",
    "<",
    ">",
    "&lt;",
    "&",
    "<!--",
    "-->",
    " ",
    "\n",
    "x=",
    '"',
    "<li>",
    "<ul>",
    "</ul>",
    "<pre>",
    "<table><td>",
    "<script>",
    "<a href=http://a>",
    "</a>",
    "é",
)
TEXT = ("http://a", "(", ")", "]", ".", " ", "\n", "<", "é", "%%")
MARKUP = (
    "%%",
    "%%a%%",
    "%%a:HAS%%",
    "%%a:ELSE%%",
    "%%a:END%%",
    "%%b:HAS%%",
    "%%b:END%%",
    ":OR:",
    "a",
    "**",
    ":",
    "\n",
    "&amp;",
)
VALUES = {"a": WildcardValue("<x> & y", encoded=False), "b": WildcardValue("&lt;" * 100, encoded=True)}
MARKER = Instrumenter("https://t.example", "k" * 32)
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
WORDS_OF_A_BODY = ("a", " ", "\t", "\r\n", "\n", "\r", ".", "\n.", "From ", "\nFrom ", "=", "é", "\0", "😀")
PROSE = ("a", " ", "=?", "é", "\n", ",", '"', "\\", "😀", "a ")


def _masked(text: str) -> str:
    """A value, and a reply and a link that quote it."""
    secrets = SecretValues({"x": text})
    secrets.may_be_in(text)
    return secrets.mask(text)


def _template(source: str) -> None:
    template = Template(source)
    template.html(VALUES, {"f.txt": "1"}, NO_BOUND)
    template.header(VALUES, {}, NO_BOUND)


def _filled(value: str) -> None:
    """A body that repeats a value of a recipient."""
    template = Template("<p>%%v%%</p>" * 20)
    for encoded in (True, False):
        values = recipient_values({"v": value}, html_encoded=encoded)
        template.html(values, {}, NO_BOUND)
        template.text(values, {}, NO_BOUND)
        template.header(values, {}, NO_BOUND)


def _compared(name: str) -> Reader:
    words = ("1", "a", ",", " ", ".", "-", "2026-01-01", "ß", "e")
    return Reader(f"the operator {name}", lambda text: OPERATORS[name](text, text[::-1], UTC), words, 10_000)


def _mail(text: str) -> bytes:
    return mime.build(
        from_name="Acme",
        from_address="hello@acme.example",
        to="ann@example.com",
        reply_to=None,
        subject="Hello",
        html=text,
        text=text,
        message_id="1@acme.example",
        date=MOMENT,
    )


IN_SENDS = (
    Reader("a template", _template, MARKUP, MIB),
    Reader("the text that everybody gets", unconditional_text, MARKUP, BODY),
    Reader("invalid markup", lambda text: list(find_invalid_markup(text)), (*MARKUP, "%%a b", "\n"), BODY),
    Reader("conditions", lambda text: parse_conditions(text, "a"), ("HAS", ":", ":OR:", "a", "EXACTLY:"), MIB),
    Reader("a value of a recipient", _filled, ("<", "&", "&lt;", "a", "\n", "%%", "é", "&#65;"), 10_000),
    *map(_compared, OPERATORS),
    Reader("a secret value", _masked, ("a", " ", "<", "&lt;", "&", ".", "\n", "http://a"), 10_000),
    Reader("text as HTML", encode, ("<", "&", "a", "é", '"'), MIB),
    Reader("HTML as text", decode, ("&lt;", "&", "&#", ";", "a", "&#65;", "&#x41;", "&nosuch;"), MIB),
    Reader(
        "two versions of a body",
        lambda text: compare(lines_of(text[: len(text) // 2]), lines_of(text[len(text) // 2 :])),
        ("a\n", "b\n", "\n", "a", "<td>\n", "</td>\n"),
        BODY,
    ),
    Reader(
        "a body and the same backwards",
        lambda text: compare(text.split(","), text.split(",")[::-1]),
        (),
        BODY,
        item="#",
    ),
    Reader(
        "the tags of HTML",
        lambda text: [tag.attributes() for tag in parse_html(text) if isinstance(tag, Tag)],
        HTML,
        BODY,
    ),
    Reader("the text of HTML", _text, HTML, BODY),
    Reader("the words of HTML", _text_without_tags, HTML, BODY),
    Reader(
        "attributes of one tag",
        _text,
        ("x ", "x=1 ", 'x="" ', "'", '"', "=", "/", "href=a "),
        BODY,
        "<a ",
        ">b</a>",
    ),
    Reader("text that is laid out", _text, (" ", "\n", "x", "\t", "&nbsp;", "\x01", "\r"), BODY, "<pre>", "</pre>"),
    Reader(
        "a link that may hold a secret",
        has_secret,
        ("a=b&", "token", "A", "a1-", "%74", "=", "?", "#&;"),
        64 * KIB,
        "https://a.example/?",
    ),
    Reader("a style", _text, ("display", ":", " ", "none", ";"), BODY, "<p style='", "'>x"),
    Reader("links of HTML", lambda text: replace_in_html(text, lambda _: "x"), HTML, BODY),
    Reader("links of a text", lambda text: replace_in_text(text, lambda _: "x"), TEXT, BODY),
    Reader(
        "one link of a text",
        lambda text: replace_in_text(text, lambda _: "x"),
        ("(", ")", "[", "]", ".", "a", "%"),
        BODY,
        "http://a",
    ),
    Reader(
        "links that are stored",
        lambda text: (links_in_source("html_email", text), links_in_source("text_email", text)),
        (*TEXT, "<a href='"),
        MIB,
    ),
    Reader("a body with a pixel", lambda text: MARKER.with_pixel(text, 1), ("</body", "<", "/", "</", "İ"), BODY),
    Reader("tracked links", lambda text: MARKER.with_links(text, "text_email", 1, {}), TEXT, BODY),
    Reader("a text body", lambda text: text_entity("plain", text), WORDS_OF_A_BODY, BODY),
    Reader("a mail", _mail, WORDS_OF_A_BODY, BODY),
    Reader(
        "an attachment",
        lambda text: encode_attachment(Attachment("a.txt", "text/plain", text.encode())),
        ("a", "\0"),
        MIB,
    ),
    Reader("a subject", lambda text: text_header("Subject", text), PROSE, 64 * KIB),
    Reader("a sender's name", lambda text: address_header("From", "a@b.example", text), PROSE, 4 * KIB),
    Reader("a sender's address", lambda text: address_header("From", text), ("a", "@", "é", "\n", "<", "."), 254),
    Reader("an identifier", lambda text: identifier_header("Message-ID", text), ("a", "<", ">", "\n", "@"), 4 * KIB),
    Reader(
        "the name of a file in a header",
        lambda text: disposition_header("attachment", text),
        ("a", "é", "%", '"', "\n"),
        64 * KIB,
    ),
    Reader(
        "a signed body",
        lambda text: relaxed_body(text.encode() + b"\r\n"),
        ("a", " ", "\t", "\r\n", " \r\n", "  "),
        BODY,
    ),
    Reader(
        "a signed field", lambda text: relaxed_field(b"Subject", text.encode()), ("a", " ", "\t", "\r\n "), 64 * KIB
    ),
    Reader("the end of a mail", lambda text: _dot_stuffed(text.encode()), ("\r\n.", "\n", "\r", ".", "a"), BODY),
    Reader("parts of a text message", segments.split, ("a", "€", "é", "😀", "\n"), 64 * KIB),
    Reader(
        "a text message as bytes",
        lambda text: segments.encode(text, segments.coding_of(text)),
        ("a", "€", "é", "😀"),
        64 * KIB,
    ),
    Reader(
        "a server's reply",
        lambda text: Reply.from_wire(550, text.encode()).result(),
        ("a", "5.1.1 ", "\n", "\0", " ", "."),
        64 * KIB,
    ),
    Reader(
        "what a refusal is about",
        lambda text: blocks_address(text, None),
        ("user ", "unknown ", "mailbox is ", "5.1.1 ", "#", "@", " ", "\n", "-", "'", "relay ", "no such "),
        64 * KIB,
    ),
    Reader(
        "what a failed receipt is about", blocks_number, ("stat:", "REJECTD", " ", "receipt 16", "refused"), 64 * KIB
    ),
    Reader(
        "words without names of the installation",
        REDACTION.redact,
        ("a", ".", "relay.", "relay.example", "localhost", "1.", "10.0.0.1", ":", "[", "/srv/mail/", "@", "-"),
        64 * KIB,
    ),
    Reader(
        "a transport's words",
        lambda text: sanitize_result(DeliveryResult.refused(text)),
        ("a", "\0", "é", "\n"),
        64 * KIB,
    ),
)
