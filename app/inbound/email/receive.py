"""One inbound email, from a pipe or the listener: parsing its reports, and finding the recipient that each is about."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from email.errors import MessageError
from email.message import Message
from functools import partial

from flufl.bounce import all_failures

from app.inbound.domain_reports.address import domain_of_addresses
from app.inbound.domain_reports.take import take_domain_report
from app.inbound.effect import Effect, apply_with_patience, installation_redaction
from app.inbound.email.fields import (
    MAX_BYTES_READ,
    MAX_LARGE_BYTES,
    MAX_TEXT_LENGTH,
    addresses_in,
    field,
    headers_of,
    one_line,
    parse,
    parse_head,
    parts_of_type,
)
from app.inbound.email.record import record_report
from app.inbound.email.report import (
    FEEDBACK_REPORT_TYPE,
    UNSPECIFIC_STATUS,
    Report,
    ReportKind,
    complaint_reports,
    delivery_reports,
    status_in,
)
from app.secret_keys import SecretKeys
from app.services import Services
from app.tracking.tokens import UNSUBSCRIBE_BY_MAIL_PURPOSE, is_signed_form, recipient_of_address

logger = logging.getLogger(__name__)


ORIGINAL_MESSAGE_TYPES = ("message/rfc822", "message/global", "text/rfc822-headers", "message/global-headers")
AUTOMATIC_PRECEDENCES = ("auto_reply", "bulk", "junk")
AUTOMATIC_REPLIES = ("auto-replied", "auto-notified")
REPLY_FIELDS = ("X-Autoreply", "X-Autorespond")
SUPPRESS_FIELD = "X-Auto-Response-Suppress"
MAX_ADDRESSES = 10
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
        reports = [*delivery_reports(message), *complaint_reports(message)]
        if prose and not reports and not any(parts_of_type(message, FEEDBACK_REPORT_TYPE)):
            reports = list(_prose_reports(message))
    except PARSER_ERRORS as error:
        # Without a traceback: strangers write such messages as often as they like.
        logger.warning("a message that cannot be parsed is treated as an ordinary one: %r", error)
        return []
    reports.sort(key=lambda report: report.kind is not ReportKind.FAILED)
    return [replace(report, original_senders=report.original_senders + senders) for report in reports]


def is_automatic(message: Message) -> bool:
    """Whether a program wrote the message: an absence note, a receipt of reading, a notification (RFC 3834)."""
    if _submitted(message) not in ("", "no") or field(message, "Precedence").lower() in AUTOMATIC_PRECEDENCES:
        return True
    return SUPPRESS_FIELD in message or is_automatic_reply(message)


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
            status = None if kind is not ReportKind.FAILED else code if code and code[0] in "45" else UNSPECIFIC_STATUS
            yield Report(kind, status, detail, about, guessed=True)


def _words_about(message: Message, addresses: Collection[str]) -> str:
    """What a notification in prose says of an address: the rest of the paragraph behind it. Nothing where it is about
    so many that looking for them would take long."""
    if len(addresses) > MAX_ADDRESSES:
        return ""
    first = re.compile("|".join(map(re.escape, sorted(addresses))), re.IGNORECASE)
    for part in message.walk():
        text = part.get_payload()
        if isinstance(text, str) and (match := first.search(text)):
            following = text[match.end() : match.end() + MAX_TEXT_LENGTH]
            return one_line(_PARAGRAPH_END.split(following, maxsplit=1)[0].lstrip(">)\"' :;.\t"))
    return ""


def _original_senders(message: Message) -> tuple[str, ...]:
    """The return paths of the attached messages, as the last mail server wrote them."""
    originals = map(headers_of, parts_of_type(message, *ORIGINAL_MESSAGE_TYPES))
    return tuple(sender for original in originals for sender in addresses_in(original, ["Return-Path"]))


RECIPIENT_FIELDS = ("X-Original-To", "Delivered-To", "Envelope-To", "To")
"""Fields in which mail servers, and authors of reports, write the recipient of the envelope."""


@dataclass(frozen=True, slots=True)
class SignedRecipient:
    """The recipient that a signed address names, and the purpose of the address."""

    recipient_id: int
    purpose: str


def envelope_of(message: Message, envelope: Sequence[str]) -> Sequence[str]:
    """The recipients of the message: those that the mail server names, else those of its fields."""
    return envelope or addresses_in(message, RECIPIENT_FIELDS)


def is_addressed_to_us(envelope: Sequence[str]) -> bool:
    """Whether any address has our format, genuine or not."""
    return any(is_signed_form(address) for address in envelope)


def find_signed_recipient(secret_keys: SecretKeys, addresses: Iterable[str]) -> SignedRecipient | None:
    """The recipient of the first genuine signed address; None if there is none."""
    for address in addresses:
        signed_recipient = recipient_of_address(secret_keys, address)
        if signed_recipient:
            purpose, recipient_id = signed_recipient
            return SignedRecipient(recipient_id, purpose)
    return None


def find_original_sender(secret_keys: SecretKeys, reports: Iterable[Report]) -> SignedRecipient | None:
    """A complaint may be sent to the operator's address that a provider knows. It then counts if it contains the signed
    return path of the original message."""
    return find_signed_recipient(secret_keys, (sender for report in reports for sender in report.original_senders))


UNSUBSCRIBE_REPORT = Report(ReportKind.OPT_OUT, detail="by mail")


@dataclass(frozen=True, slots=True)
class EmailResult:
    """The kind and the effect of a message. `kind` is that of its report, else `domain report`, `automatic` or
    `ordinary`."""

    kind: str
    effect: Effect


def bytes_read(secret_keys: SecretKeys, envelope: Sequence[str]) -> int:
    """How many bytes are read of a message to these recipients, from its beginning."""
    return MAX_BYTES_READ if domain_of_addresses(secret_keys, envelope) is None else MAX_LARGE_BYTES


def receive_email(services: Services, raw: bytes, envelope: Sequence[str] = (), *, patience: float) -> EmailResult:
    """Reads the message and writes what it reports.

    `envelope` has the recipients that the mail server names; without them the message's own fields count. A report may
    come before the outcome is written: then it waits, for at most `patience` seconds. Raises `SQLAlchemyError` when the
    database fails.
    """
    head = parse_head(raw)
    addresses = envelope_of(head, envelope)
    domain_id = domain_of_addresses(services.settings.secret_keys, addresses)
    if domain_id is not None:
        return EmailResult("domain report", take_domain_report(services, domain_id, raw))
    signed, reports = _read(services.settings.secret_keys, raw, addresses)
    if signed and signed.purpose == UNSUBSCRIBE_BY_MAIL_PURPOSE:
        # Mail programs and providers send it automatically, when a person presses their button.
        reports = [] if reports or is_automatic_reply(head) else [UNSUBSCRIBE_REPORT]
    kind = reports[0].kind.value if reports else "automatic" if is_automatic(head) else "ordinary"
    if reports:
        redaction = installation_redaction(services)
        reports = [replace(report, detail=redaction.redact(report.detail)) for report in reports]
    effect = _record(services, signed, reports, _fingerprint(head, raw), patience) if signed else Effect.IGNORED
    if effect is Effect.IGNORED:
        logger.info("an email was ignored", extra={"kind": kind})
    return EmailResult(kind, effect)


def _read(secret_keys: SecretKeys, raw: bytes, envelope: Sequence[str]) -> tuple[SignedRecipient | None, list[Report]]:
    """The recipient that the message is about, and its reports. A message to a forged address is not parsed at all, and
    of one to any other address only what is cheap to parse."""
    signed = find_signed_recipient(secret_keys, envelope)
    if signed is None and is_addressed_to_us(envelope):
        return None, []
    reports = read_reports(parse(raw), prose=signed is not None)
    return signed or find_original_sender(secret_keys, reports), reports


def _record(
    services: Services, signed: SignedRecipient, reports: Sequence[Report], fingerprint: str, patience: float
) -> Effect:
    """The first part of the report that is about this recipient counts."""
    for report in reports:
        record = partial(record_report, recipient_id=signed.recipient_id, report=report, fingerprint=fingerprint)
        effect = apply_with_patience(services, record, patience)
        if effect is not Effect.IGNORED:
            return effect
    return Effect.IGNORED


def _fingerprint(message: Message, raw: bytes) -> str:
    """What is equal for each copy of a message, however it arrived, and however much of it was kept."""
    message_key = field(message, "Message-ID").encode() or raw[:MAX_BYTES_READ]
    return hashlib.sha256(message_key).hexdigest()
