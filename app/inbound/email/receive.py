"""Taking one email in, whatever door it came through: a pipe, or the listener."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from email.message import Message

from app.db.database import Transaction
from app.inbound.email.fields import field, parse, parse_head
from app.inbound.email.identify import (
    Named,
    envelope_of,
    find_original_sender,
    find_signed_recipient,
    is_addressed_to_us,
)
from app.inbound.email.read import is_automatic, is_automatic_reply, read_reports
from app.inbound.email.record import Effect, record_report
from app.inbound.email.report import Kind, Report
from app.recipients.redaction import Redaction
from app.services import Services
from app.tracking.return_path import UNSUBSCRIBE_BY_MAIL

logger = logging.getLogger(__name__)

LOOK_AGAIN = 0.1
"""Seconds between two looks for a recipient whose outcome is not written yet."""
BY_MAIL = Report(Kind.OPT_OUT, words="by mail")


@dataclass(frozen=True, slots=True)
class Received:
    """What a message was and did. `kind` is that of its report, else `automatic` or `ordinary`."""

    kind: str
    effect: Effect


def receive_email(services: Services, raw: bytes, envelope: Sequence[str] = (), *, patience: float) -> Received:
    """Reads the message and writes what it reports.

    `envelope` holds the recipients that the mail server names; without them the message's own fields count. A report
    may be quicker than the sender, which writes outcomes together: it waits for it, `patience` seconds at most.
    Raises `SQLAlchemyError` when the database fails.
    """
    head = parse_head(raw)
    named, reports = _read(services.settings.secret_key, raw, envelope_of(head, envelope))
    if named and named.purpose == UNSUBSCRIBE_BY_MAIL:
        # Mail programs and providers write it by themselves, when a person presses their button.
        reports = [] if reports or is_automatic_reply(head) else [BY_MAIL]
    kind = reports[0].kind.value if reports else "automatic" if is_automatic(head) else "ordinary"
    discretion = Redaction.of(services.settings)
    reports = [replace(report, words=discretion.words(report.words)) for report in reports]
    effect = _record(services, named, reports, _fingerprint(head, raw), patience) if named else Effect.IGNORED
    if effect is Effect.IGNORED:
        logger.info("an email was ignored", extra={"kind": kind, "from": field(head, "From")})
    return Received(kind, effect)


def _read(secret_key: str, raw: bytes, envelope: Sequence[str]) -> tuple[Named | None, list[Report]]:
    """Whose the message is, and what it reports. Whoever knows no address of ours makes us read no message, and
    whoever writes to another address makes us read what is cheap to read."""
    named = find_signed_recipient(secret_key, envelope)
    if named is None and is_addressed_to_us(envelope):
        return None, []
    reports = read_reports(parse(raw), prose=named is not None)
    return named or find_original_sender(secret_key, reports), reports


def _record(services: Services, named: Named, reports: Sequence[Report], fingerprint: str, patience: float) -> Effect:
    """The first part of the report that is about this recipient tells."""
    for report in reports:
        effect = _record_one(services, named.recipient_id, report, fingerprint, patience)
        if effect is not Effect.IGNORED:
            return effect
    return Effect.IGNORED


def _record_one(services: Services, recipient_id: int, report: Report, fingerprint: str, patience: float) -> Effect:
    def work(transaction: Transaction) -> Effect:
        return record_report(transaction, recipient_id, report, fingerprint)

    end = time.monotonic() + patience
    while True:
        effect = services.database.transact(work)
        if effect is not Effect.EARLY or time.monotonic() > end:
            return effect
        services.stopping.wait(LOOK_AGAIN)


def _fingerprint(message: Message, raw: bytes) -> str:
    """The same for each copy of a message, whatever way it came."""
    own = field(message, "Message-ID").encode() or raw
    return hashlib.sha256(own).hexdigest()
