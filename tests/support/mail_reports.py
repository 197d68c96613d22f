"""Emails that come back, as mail servers and providers write them."""

from __future__ import annotations

import uuid
from email.utils import format_datetime

from app.clock import now

ORIGINAL = b"From: hello@acme.example\r\nTo: ann@example.com\r\nSubject: Hello\r\n\r\nHello there\r\n"


def delivery_failure(
    to: str,
    recipient: str,
    *,
    original: bytes = ORIGINAL,
    status: str = "5.1.1",
    action: str = "failed",
    diagnostic: str = "smtp; 550 5.1.1 mailbox does not exist",
) -> bytes:
    """A delivery status notification (RFC 3464) sent to a return path."""
    machine = (
        f"Reporting-MTA: dns; mx.example.net\r\nArrival-Date: {format_datetime(now())}\r\n\r\n"
        f"Original-Recipient: rfc822; {recipient}\r\nFinal-Recipient: rfc822; {recipient}\r\n"
        f"Action: {action}\r\nStatus: {status}\r\nDiagnostic-Code: {diagnostic}\r\n"
    )
    return _report("delivery-status", to, "Undelivered Mail Returned to Sender", machine, original)


def complaint(to: str, recipient: str, *, mail_from: str = "", type_: str = "abuse") -> bytes:
    """A complaint report (RFC 5965)."""
    machine = f"Feedback-Type: {type_}\r\nUser-Agent: Reporter/1.0\r\nVersion: 1\r\nOriginal-Rcpt-To: <{recipient}>\r\n"
    if mail_from:
        machine += f"Original-Mail-From: <{mail_from}>\r\n"
    return _report("feedback-report", to, "FW: complaint", machine, ORIGINAL)


def qmail_failure(to: str, recipient: str) -> bytes:
    """qmail's own form of a delivery status notification."""
    text = (
        "Hi. This is the qmail-send program at mx.example.net.\r\n"
        "I'm afraid I wasn't able to deliver your message to the following addresses.\r\n"
        "This is a permanent error; I've given up. Sorry it didn't work out.\r\n\r\n"
        f"<{recipient}>:\r\nSorry, no mailbox here by that name. (#5.1.1)\r\n\r\n"
        "--- Below this line is a copy of the message.\r\n\r\n"
    )
    return plain(to, text, Return_Path="<>", From="MAILER-DAEMON@mx.example.net", Subject="failure notice")


def plain(to: str, text: str = "Thank you!", **fields: str) -> bytes:
    """A message of one text part; `Auto_Submitted` and the like are further fields."""
    given = {"From": "ann@example.com", "Subject": "Re: Hello", "Message-ID": _new_id(), **fields}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in {**given, "To": f"<{to}>"}.items()]
    return ("\r\n".join(lines) + f"\r\n\r\n{text}\r\n").encode()


def _new_id() -> str:
    return f"<{uuid.uuid4().hex}@mx.example.net>"


def _report(type_: str, to: str, subject: str, machine: str, original: bytes) -> bytes:
    head = (
        "Return-Path: <>\r\nFrom: Mail Delivery System <mailer-daemon@mx.example.net>\r\n"
        f"To: <{to}>\r\nSubject: {subject}\r\nMessage-ID: {_new_id()}\r\nAuto-Submitted: auto-replied\r\n"
        f'MIME-Version: 1.0\r\nContent-Type: multipart/report; report-type={type_}; boundary="=_b"\r\n\r\n'
        "--=_b\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\nFor people.\r\n"
        f"--=_b\r\nContent-Type: message/{type_}\r\n\r\n{machine}\r\n"
        "--=_b\r\nContent-Type: message/rfc822\r\n\r\n"
    )
    return head.encode() + original + b"\r\n--=_b--\r\n"
