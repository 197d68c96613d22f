"""Complaint reports (ARF, RFC 5965). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import Message

from app.inbound.email.fields import addresses_in, field, field_blocks, parts_of_type
from app.inbound.email.report import Report, ReportKind

TYPE = "message/feedback-report"
KINDS = {
    "abuse": ReportKind.COMPLAINT,
    "fraud": ReportKind.COMPLAINT,
    "virus": ReportKind.COMPLAINT,
    "other": ReportKind.COMPLAINT,
    "opt-out": ReportKind.OPT_OUT,
    "opt-out-list": ReportKind.OPT_OUT,
}
"""Other types, such as `not-spam` and `auth-failure`, are not complaints."""


def complaint_reports(message: Message) -> Iterator[Report]:
    """The complaint of the message; none for any other message."""
    for part in parts_of_type(message, TYPE):
        for block in field_blocks(part):
            type_ = field(block, "Feedback-Type").lower()
            if type_ in KINDS:
                reporter = field(block, "User-Agent")
                detail = f"{type_} reported by {reporter}" if reporter else type_
                about = frozenset(address.lower() for address in addresses_in(block, ["Original-Rcpt-To"]))
                senders = tuple(addresses_in(block, ["Original-Mail-From"]))
                yield Report(KINDS[type_], None, detail, about, original_senders=senders)
