"""One inbound email, from a pipe or the listener."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from email.message import Message
from functools import partial

from app.db.database import Transaction
from app.inbound.domain_reports.address import domain_of_addresses
from app.inbound.domain_reports.take import take_domain_report
from app.inbound.effect import Effect, apply_with_patience
from app.inbound.email.fields import MAX_BYTES_READ, MAX_LARGE_BYTES, field, parse, parse_head
from app.inbound.email.identify import (
    SignedRecipient,
    envelope_of,
    find_original_sender,
    find_signed_recipient,
    is_addressed_to_us,
)
from app.inbound.email.read import is_automatic, is_automatic_reply, read_reports
from app.inbound.email.record import record_report
from app.inbound.email.report import Report, ReportKind
from app.inbound.redaction import installation_redaction
from app.secret_keys import SecretKeys
from app.services import Services
from app.tracking.return_path import UNSUBSCRIBE_BY_MAIL

logger = logging.getLogger(__name__)

UNSUBSCRIBE_REPORT = Report(ReportKind.OPT_OUT, detail="by mail")


@dataclass(frozen=True, slots=True)
class Received:
    """ReportKind and effect of a message. `kind` is that of its report, else `domain report`, `automatic` or
    `ordinary`."""

    kind: str
    effect: Effect


def bytes_read(secret_keys: SecretKeys, envelope: Sequence[str]) -> int:
    """How many bytes are read of a message to these recipients, from its beginning."""
    return MAX_BYTES_READ if domain_of_addresses(secret_keys, envelope) is None else MAX_LARGE_BYTES


def receive_email(services: Services, raw: bytes, envelope: Sequence[str] = (), *, patience: float) -> Received:
    """Reads the message and writes what it reports.

    `envelope` has the recipients that the mail server names; without them the message's own fields count. A report may
    come before the outcome is written: then it waits, for at most `patience` seconds. Raises `SQLAlchemyError` when the
    database fails.
    """
    head = parse_head(raw)
    addresses = envelope_of(head, envelope)
    domain_id = domain_of_addresses(services.settings.secret_keys, addresses)
    if domain_id is not None:
        return Received("domain report", take_domain_report(services, domain_id, raw))
    signed, reports = _read(services.settings.secret_keys, raw, addresses)
    if signed and signed.purpose == UNSUBSCRIBE_BY_MAIL:
        # Mail programs and providers send it automatically, when a person presses their button.
        reports = [] if reports or is_automatic_reply(head) else [UNSUBSCRIBE_REPORT]
    kind = reports[0].kind.value if reports else "automatic" if is_automatic(head) else "ordinary"
    if reports:
        redaction = installation_redaction(services)
        reports = [replace(report, detail=redaction.redact(report.detail)) for report in reports]
    effect = _record(services, signed, reports, _fingerprint(head, raw), patience) if signed else Effect.IGNORED
    if effect is Effect.IGNORED:
        logger.info("an email was ignored", extra={"kind": kind})
    return Received(kind, effect)


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
        effect = apply_with_patience(services, partial(_record_one, signed.recipient_id, report, fingerprint), patience)
        if effect is not Effect.IGNORED:
            return effect
    return Effect.IGNORED


def _record_one(recipient_id: int, report: Report, fingerprint: str, transaction: Transaction) -> Effect:
    return record_report(transaction, recipient_id, report, fingerprint)


def _fingerprint(message: Message, raw: bytes) -> str:
    """The same for each copy of a message, however it arrived, and however much of it was kept."""
    own = field(message, "Message-ID").encode() or raw[:MAX_BYTES_READ]
    return hashlib.sha256(own).hexdigest()
