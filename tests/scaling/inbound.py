"""Readers of inbound mail and of the answers of gateways, name servers and relays."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

from app.accounts.dns_records import Record, find
from app.inbound.domain_reports.documents import UnreadableReport
from app.inbound.domain_reports.take import read_reports_about_domain
from app.inbound.email.fields import addresses_in, field, one_line, parse, parse_head
from app.inbound.email.receive import (
    RECIPIENT_FIELDS,
    find_signed_recipient,
    is_addressed_to_us,
    is_automatic,
    read_reports,
)
from app.inbound.email.report import failure_status, status_in
from app.inbound.hooks.base import _password
from app.inbound.hooks.mailgun import report_of as read_mailgun
from app.inbound.hooks.postmark import report_of as read_postmark
from app.inbound.hooks.sendgrid import parse_event
from app.inbound.hooks.ses import reports_of as read_ses
from app.inbound.hooks.sparkpost import report_of as read_sparkpost
from app.inbound.kannel import _decoded
from app.inbound.replies import _storable, plain_number
from app.smtp_server.arriving import IncomingMail, Store
from app.smtp_server.session import BoundedSession
from app.transports.sms import segments
from app.transports.sms.incoming import read_deliver_sm
from tests.scaling.reader import KIB, MIB, Reader

MAIL = 256 * KIB
UUID = "12345678-1234-1234-1234-123456789012"
HEAD = "From: a@b.example\r\nTo: bounces+aaaa@a.example\r\nSubject: s\r\n"
MULTIPART = HEAD + 'Content-Type: multipart/report; boundary="b"\r\n\r\n--b\r\n'
STATUS = MULTIPART + "Content-Type: message/delivery-status\r\n\r\n"
FIELDS = ("\r\n", "\n", "\r", " ", "a", ":", "X: y\r\n", "\r\n ", "To: (", "<", "@", ",", "=?utf-8?q?a?= ", "é")
PARTS = (
    "--b\r\n",
    "\r\n",
    "x\r\n",
    "--b--\r\n",
    "Content-Type: message/rfc822\r\n\r\n",
    "Content-Type: text/plain\r\n\r\n",
    "Content-Type: multipart/mixed; boundary=b\r\n\r\n",
    "a",
    "<a@b.example>\r\n",
    " ",
)
STATUSES = (
    "Final-Recipient: rfc822; a@b\r\n",
    "Action: failed\r\n",
    "Status: 5.1.1\r\n",
    "\r\n",
    "\n \n",
    " ",
    ";",
    "a",
    "Diagnostic-Code: smtp; 550 5.1.1 a\r\n",
)


def _read(text: str) -> None:
    """All processing of a mail that names a recipient."""
    raw = text.encode()
    is_automatic(parse_head(raw))
    read_reports(parse(raw))


XML = HEAD + "Content-Type: text/xml\r\n\r\n<feedback><policy_published><domain>a.b</domain></policy_published>"
ELEMENTS = (
    "<record>",
    "</record>",
    "<row>",
    "</row>",
    "<count>1</count>",
    "a",
    " ",
    "\r\n",
    "&amp;",
    "<!--",
    "-->",
    "<a b='",
)
JSON = HEAD + 'Content-Type: application/json\r\n\r\n{"report-id": "1", "policies": ['
MEMBERS = ("{", "}", "[", "]", '"failure-details": [', '"a": 1', ",", " ", '"', "\\\\", "1")


def _read_report(text: str) -> None:
    with contextlib.suppress(UnreadableReport):
        read_reports_about_domain(text.encode())


def _read_events(text: str) -> None:
    """A failure at each relay, with the text wherever the relay repeats that of a mail server."""
    parse_event({"event": "bounce", "smtp-id": UUID + "@a", "reason": text, "status": text, "email": text})
    read_postmark({"RecordType": "Bounce", "Type": "HardBounce", "Details": text, "Email": text})
    read_mailgun({"event": "failed", "delivery-status": {"message": text, "enhanced-code": text}, "recipient": text})
    read_sparkpost({"type": "bounce", "bounce_class": "10", "raw_reason": text, "rcpt_to": text})
    bounced = {"emailAddress": text, "status": text, "diagnosticCode": text}
    read_ses({"eventType": "Bounce", "bounce": {"bounceType": "Permanent", "bouncedRecipients": [bounced]}})


def _arrives(text: str) -> None:
    """Receives a mail a piece at a time, as it arrives."""
    mail, raw = IncomingMail(Store(), most=MAIL, kept=MAIL), text.encode()
    for at in range(0, len(raw), KIB):
        mail.feed(raw[at : at + KIB])
    if mail.fault is None:
        mail.raw()
    mail.close()


def _heads(text: str) -> None:
    head = parse_head(text.encode())
    addresses = addresses_in(head, RECIPIENT_FIELDS)
    is_addressed_to_us(addresses)
    find_signed_recipient(("k" * 32,), addresses)
    field(head, "From")


def _receipt(text: str) -> object:
    return read_deliver_sm(
        SimpleNamespace(
            short_message=text.encode(), esm_class=0x04, source_addr="1", destination_addr="2", data_coding=0
        )
    )


def _reply(text: str) -> object:
    return read_deliver_sm(
        SimpleNamespace(
            short_message=b"\x03" + text.encode(), esm_class=0x40, source_addr="1", destination_addr="2", data_coding=0
        )
    )


def _record(purpose: str, value: str) -> Reader:
    record = Record(purpose, "a.example", "TXT", value)
    return Reader(
        f"a record for {purpose}",
        lambda text: find(record, lambda *_: [text]),
        (";", "=", " ", "p=", "a", "+", "include:"),
        64 * KIB,
        value,
    )


INBOUND = (
    Reader("whose a message is", _heads, FIELDS, MAIL),
    Reader(
        "to whom a message is addressed", _heads, ("(", "<", "[", '"', ",", "a", "@", "a@b ", ":", ";"), MAIL, "To: "
    ),
    Reader(
        "an address of the envelope",
        BoundedSession._getaddr.__get__(object()),
        ("<", ">", "(", "@", ":", "a", " ", '"'),
        512,
    ),
    Reader("a mail while it arrives", _arrives, ("a", ".", "\r\n", "\n", "\r", "\r\n."), MAIL),
    Reader("a message", _read, FIELDS, MAIL, HEAD),
    Reader(
        "a text that comes back",
        _read,
        ("a", " ", "\r\n", "<", "@", ">", "a@b.example", "failed", ":"),
        MAIL,
        HEAD + "\r\n",
    ),
    Reader(
        "the type of a part",
        _read,
        (";", "a=", '"', "=", "a", " ", "a*0=", "/"),
        MAIL,
        HEAD + "Content-Type: multipart/mixed",
    ),
    Reader("parts", _read, PARTS, MAIL, MULTIPART),
    Reader("a delivery status", _read, STATUSES, MAIL, STATUS),
    Reader("words of others", one_line, ("a", " ", "\0", "\n", "é"), MAIL),
    Reader("a status", status_in, ("5", ".", "5.1", "5.1.1", "1"), MAIL),
    Reader("the code of a failure", lambda text: failure_status(None, text), ("5", "550", "5.1.", " ", "a"), MAIL),
    Reader(
        "an event of a relay",
        _read_events,
        ("5", ".", "a", " ", "\0", "<"),
        MIB,
    ),
    Reader("a DMARC report", _read_report, ELEMENTS, MAIL, XML),
    Reader("a TLS report", _read_report, MEMBERS, MAIL, JSON),
    Reader("a password of a relay", _password, ("a", "=", " ", "YTpi"), KIB),
    Reader("a receipt of a gateway", _receipt, ("id:", "stat:", "a", " ", "1"), 64 * KIB),
    Reader("a reply by a gateway", _reply, ("a", "\0", "\x05", "\x1b", "é"), 64 * KIB),
    Reader(
        "a text of a gateway",
        lambda text: segments.decode(text.encode(), segments.GSM),
        ("a", "\x1b", "é", "\0"),
        64 * KIB,
    ),
    Reader(
        "a reply over HTTP", lambda text: _storable(_decoded(text.encode(), "UTF-16BE")), ("a", "\0", "é"), 256 * KIB
    ),
    Reader("a number", plain_number, ("+", " ", "1"), 256 * KIB),
    _record("spf", "v=spf1 include:a.example"),
    _record("dkim", "v=DKIM1; k=rsa; p=aaaa"),
    _record("dmarc", "v=DMARC1; p=none"),
)
