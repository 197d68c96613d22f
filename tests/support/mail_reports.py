"""Emails that come back, as mail servers and providers write them."""

from __future__ import annotations

import base64
import io
import json
import uuid
import zipfile
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


DMARC = """<?xml version="1.0" encoding="UTF-8"?>
<feedback xmlns="urn:ietf:params:xml:ns:dmarc-2.0">
  <report_metadata>
    <org_name>mailbox.example</org_name><email>dmarc@mailbox.example</email><report_id>{report_id}</report_id>
    <date_range><begin>1769817600</begin><end>1769903999</end></date_range>
  </report_metadata>
  <policy_published><domain>{domain}</domain><adkim>r</adkim><aspf>r</aspf><p>none</p><pct>100</pct></policy_published>
  {records}
</feedback>
"""
DMARC_RECORD = """<record>
    <row><source_ip>{source}</source_ip><count>{count}</count>
      <policy_evaluated><disposition>none</disposition><dkim>{dkim}</dkim><spf>{spf}</spf></policy_evaluated></row>
    <identifiers><header_from>{domain}</header_from></identifiers>
    <auth_results><dkim><domain>{domain}</domain><selector>s1</selector><result>{dkim}</result></dkim>
      <spf><domain>bounces.example</domain><result>{spf}</result></spf></auth_results>
  </record>"""


def dmarc_report(domain: str, *records: tuple[str, int, str, str], report_id: str = "r-1") -> bytes:
    """A DMARC aggregate report; each record is source, count, and the results of DKIM and SPF."""
    rows = (
        DMARC_RECORD.format(domain=domain, source=source, count=count, dkim=dkim, spf=spf)
        for source, count, dkim, spf in records
    )
    return DMARC.format(domain=domain, report_id=report_id, records="\n  ".join(rows)).encode()


def tls_report(domain: str, passed: int = 10, failed: int = 2) -> bytes:
    """A TLS report."""
    policy = {"policy-type": "sts", "policy-string": ["version: STSv1"], "policy-domain": domain}
    failure = {
        "result-type": "certificate-expired",
        "sending-mta-ip": "192.0.2.7",
        "receiving-mx-hostname": f"mx.{domain}",
        "failed-session-count": failed,
    }
    report = {
        "organization-name": "Mailbox Inc.",
        "date-range": {"start-datetime": "2026-01-31T00:00:00Z", "end-datetime": "2026-01-31T23:59:59Z"},
        "contact-info": "tls@mailbox.example",
        "report-id": "2026-01-31T00:00:00Z_mailbox",
        "policies": [
            {
                "policy": policy,
                "summary": {"total-successful-session-count": passed, "total-failure-session-count": failed},
                "failure-details": [failure],
            }
        ],
    }
    return json.dumps(report).encode()


def zipped(document: bytes, name: str = "report.xml") -> bytes:
    """The document in a zip archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, document)
    return file.getvalue()


def with_attachment(to: str, content: bytes, type_: str = "application/gzip") -> bytes:
    """A message with a text for people and an attachment."""
    encoded = base64.encodebytes(content).replace(b"\n", b"\r\n")
    head = (
        f"From: reports@mailbox.example\r\nTo: <{to}>\r\nSubject: Report domain\r\nMessage-ID: {_new_id()}\r\n"
        'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="=_b"\r\n\r\n'
        "--=_b\r\nContent-Type: text/plain\r\n\r\nThis is a report.\r\n"
        f"--=_b\r\nContent-Type: {type_}\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    )
    return head.encode() + encoded + b"\r\n--=_b--\r\n"
