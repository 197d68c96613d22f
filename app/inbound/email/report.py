"""The report about an email: a delivery status notification (RFC 3464) or a complaint (RFC 5965). Pure."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message

from app.addresses import email_key
from app.inbound.email.fields import addresses_in, field, field_blocks, parts_of_type


class ReportKind(enum.Enum):
    """Kind of a report."""

    FAILED = "failed"
    """A bounce: it did not arrive, and no server retries it."""
    DELAYED = "delayed"
    """The message has not arrived yet; the other side keeps retrying."""
    ARRIVED = "arrived"
    """Delivered, relayed or expanded; nothing new for the service."""
    COMPLAINT = "complaint"
    """The reader reported it as spam (ARF)."""
    OPT_OUT = "opt-out"
    """The reader unsubscribed through the mail provider."""


@dataclass(frozen=True, slots=True)
class Report:
    """One recipient's part of a report.

    `status` is an RFC 3463 code, `detail` is the text of the other side. `about` has the addresses that it names, in
    any form; a `guessed` one was extracted from prose, and counts only if it is the recipient's. `original_senders`
    are the envelope senders that the original message is reported to have had.
    """

    kind: ReportKind
    status: str | None = None
    detail: str = ""
    about: frozenset[str] = frozenset()
    guessed: bool = False
    original_senders: tuple[str, ...] = ()

    @property
    def addresses(self) -> frozenset[str]:
        """The addresses that the report names, normalised for comparison."""
        return frozenset(map(email_key, self.about))


DELIVERY_REPORT_TYPES = ("message/delivery-status", "message/global-delivery-status")
KIND_BY_ACTION = {
    "failed": ReportKind.FAILED,
    "delayed": ReportKind.DELAYED,
    "delivered": ReportKind.ARRIVED,
    "relayed": ReportKind.ARRIVED,
    "expanded": ReportKind.ARRIVED,
}
KIND_BY_CLASS = {"5": ReportKind.FAILED, "4": ReportKind.DELAYED, "2": ReportKind.ARRIVED}
UNSPECIFIC_STATUS = "5.0.0"
_STATUS = re.compile(r"(?<![\d.])([245])\.(\d{1,3})\.(\d{1,3})(?![\d.])")
_REPLY_CODE = re.compile(r"(?<!\d)([45])\d\d(?!\d)")
_TYPE = re.compile(r"[A-Za-z0-9_-]{1,40}\s*;\s*")


def delivery_reports(message: Message) -> Iterator[Report]:
    """A report for each recipient that the notification names; none for any other message."""
    for part in parts_of_type(message, *DELIVERY_REPORT_TYPES):
        for block in field_blocks(part):
            report = _report(block)
            if report:
                yield report


def _report(block: Message) -> Report | None:
    """The first block of a notification is about the mail server, not about a recipient."""
    about = frozenset(
        filter(None, (_address(field(block, name)) for name in ("Final-Recipient", "Original-Recipient")))
    )
    detail = _untyped(field(block, "Diagnostic-Code"))
    status = status_in(field(block, "Status"))
    kind = KIND_BY_ACTION.get(field(block, "Action").lower()) or KIND_BY_CLASS.get((status or "")[:1])
    if kind is None or not about:
        return None
    if kind is ReportKind.FAILED:
        status = failure_status(status, detail)
    return Report(kind, status, detail, about)


def failure_status(status: str | None, detail: str) -> str:
    """The code of a failure: its own, else one that its detail contains, else a generic one."""
    if status and status[0] in "45":
        return status
    status_of_detail = status_in(detail)
    if status_of_detail and status_of_detail[0] in "45":
        return status_of_detail
    code = _REPLY_CODE.search(detail)
    return f"{code[1]}.0.0" if code else UNSPECIFIC_STATUS


def status_in(text: str) -> str | None:
    """The first RFC 3463 code in the text."""
    match = _STATUS.search(text)
    return match[0] if match else None


def _address(value: str) -> str:
    """The address of a field such as `rfc822; ann@example.com`."""
    return _untyped(value).strip("<> ").lower()


def _untyped(value: str) -> str:
    """The value without the type that such fields begin with."""
    match = _TYPE.match(value)
    return value[match.end() :] if match else value


FEEDBACK_REPORT_TYPE = "message/feedback-report"
KIND_BY_FEEDBACK_TYPE = {
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
    for part in parts_of_type(message, FEEDBACK_REPORT_TYPE):
        for block in field_blocks(part):
            type_ = field(block, "Feedback-Type").lower()
            if type_ in KIND_BY_FEEDBACK_TYPE:
                reporter = field(block, "User-Agent")
                detail = f"{type_} reported by {reporter}" if reporter else type_
                about = frozenset(address.lower() for address in addresses_in(block, ["Original-Rcpt-To"]))
                senders = tuple(addresses_in(block, ["Original-Mail-From"]))
                yield Report(KIND_BY_FEEDBACK_TYPE[type_], None, detail, about, original_senders=senders)
