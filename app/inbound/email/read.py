"""Parsing the reports of a message. Pure, and never fails, whatever the message is."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from email.errors import MessageError
from email.message import Message

from flufl.bounce import all_failures

from app.inbound.email.complaint import TYPE as FEEDBACK
from app.inbound.email.complaint import complaint_reports
from app.inbound.email.delivery_status import UNSPECIFIC, delivery_reports, status_in
from app.inbound.email.fields import MAX_TEXT_LENGTH, addresses_in, field, headers_of, one_line, parts_of_type
from app.inbound.email.report import Report, ReportKind

logger = logging.getLogger(__name__)

ORIGINALS = ("message/rfc822", "message/global", "text/rfc822-headers", "message/global-headers")
PRECEDENCES = ("auto_reply", "bulk", "junk")
AUTOMATIC_REPLIES = ("auto-replied", "auto-notified")
REPLY_FIELDS = ("X-Autoreply", "X-Autorespond")
SUPPRESS = "X-Auto-Response-Suppress"
MOST_ADDRESSES = 10
_PARAGRAPH_END = re.compile(r"\r?\n[ \t]{0,99}\r?\n")
_LONG_LINE = re.compile(r"([^\r\n]{200})[^\r\n]+")
PARSER_ERRORS = (MessageError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Exceptions that the libraries raise for malformed messages."""

# It logs every detector that it tries.
logging.getLogger("flufl.bounce").setLevel(logging.CRITICAL)


def read_reports(message: Message, *, prose: bool = True) -> list[Report]:
    """The reports of the message, failures first; none for a reply, whether a person or a program wrote it. Parsing
    prose is slow."""
    try:
        senders = _original_senders(message)
        found = [*delivery_reports(message), *complaint_reports(message)]
        if prose and not found and not any(parts_of_type(message, FEEDBACK)):
            found = list(_prose_reports(message))
    except PARSER_ERRORS as error:
        # Without a traceback: strangers write such messages as often as they like.
        logger.warning("a message that cannot be parsed is treated as an ordinary one: %r", error)
        return []
    found.sort(key=lambda report: report.kind is not ReportKind.FAILED)
    return [replace(report, original_senders=report.original_senders + senders) for report in found]


def is_automatic(message: Message) -> bool:
    """Whether a program wrote the message: an absence note, a receipt of reading, a notification (RFC 3834)."""
    if _submitted(message) not in ("", "no") or field(message, "Precedence").lower() in PRECEDENCES:
        return True
    return SUPPRESS in message or is_automatic_reply(message)


def is_automatic_reply(message: Message) -> bool:
    """Whether a program wrote the message as an answer to another one, and not because a person asked it to."""
    if _submitted(message) in AUTOMATIC_REPLIES or message.get_content_type() == "multipart/report":
        return True
    return any(name in message for name in REPLY_FIELDS) or field(message, "Return-Path") == "<>"


def _submitted(message: Message) -> str:
    return field(message, "Auto-Submitted").partition(";")[0].strip().lower()


def _prose_reports(message: Message) -> Iterator[Report]:
    """Notifications in a mail server's own prose, where a warning means a delay.

    The library's regular expressions take time quadratic in the length of a line, so lines are cut.
    """
    for part in message.walk():
        text = part.get_payload()
        if isinstance(text, str):
            part.set_payload(_LONG_LINE.sub(r"\1", text))
    delayed, failed = all_failures(message)
    for kind, addresses in ((ReportKind.FAILED, failed), (ReportKind.DELAYED, delayed)):
        about = frozenset(address.decode("utf-8", "replace").lower() for address in addresses)
        if about:
            detail = _words_about(message, about) or field(message, "Subject")
            code = status_in(detail)
            status = None if kind is not ReportKind.FAILED else code if code and code[0] in "45" else UNSPECIFIC
            yield Report(kind, status, detail, about, guessed=True)


def _words_about(message: Message, addresses: Collection[str]) -> str:
    """What a notification in prose says of an address: the rest of the paragraph behind it. Nothing where it is about
    so many that looking for them would take long."""
    if len(addresses) > MOST_ADDRESSES:
        return ""
    first = re.compile("|".join(map(re.escape, sorted(addresses))), re.IGNORECASE)
    for part in message.walk():
        text = part.get_payload()
        if isinstance(text, str) and (found := first.search(text)):
            following = text[found.end() : found.end() + MAX_TEXT_LENGTH]
            return one_line(_PARAGRAPH_END.split(following, maxsplit=1)[0].lstrip(">)\"' :;.\t"))
    return ""


def _original_senders(message: Message) -> tuple[str, ...]:
    """The return paths of the attached messages, as the last mail server wrote them."""
    originals = map(headers_of, parts_of_type(message, *ORIGINALS))
    return tuple(sender for original in originals for sender in addresses_in(original, ["Return-Path"]))
