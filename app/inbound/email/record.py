"""Writing what a report says of an email (decisions: 5, 8 and 11, Outcomes).

    failed, 5.x.x   bounced, event `bounced`; counted in `bounced` and no longer in `delivered`; the address is blocked
    failed, 4.x.x   the same for now: the fifth without a delivery in between blocks the address
    delayed         a step of the timeline
    complaint       the address is blocked and unsubscribed from the list
    opt-out         the address is unsubscribed from the list

Everything happens once: a recipient bounces once, complains once, and a report that comes again is known.
"""

from __future__ import annotations

import enum
import logging

from sqlalchemy import func, select

from app.addresses import email_key
from app.clock import now
from app.contacts.events import contact_events
from app.contacts.subscriptions import lock_subscriptions
from app.db.bulk import insert_new_rows
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.models import InboundRecord, Recipient, RecipientStep
from app.events.outbox import record
from app.inbound.email.mails import Mail, locked_mail
from app.inbound.email.report import Kind, Report
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.bounce_blocking import Address, note_bounce
from app.sends.outcomes.transitions import bounce_reason, bounce_string
from app.tracking.unsubscribe import apply_unsubscribe
from app.transports.base import DeliveryResult

logger = logging.getLogger(__name__)

COMPLAINT = "complaint"
"""Why the address is blocked."""
REPORTED = {Kind.DELAYED: TimelineStep.REPORTED_DELAYED, Kind.ARRIVED: TimelineStep.REPORTED_ARRIVED}
MAY_STILL_BOUNCE = (RecipientState.DELIVERED, RecipientState.UNCERTAIN, RecipientState.QUEUED)
MOST_REPORTS = 20
"""Delays of one mail that are kept, and arrivals; further ones tell nothing new."""


class Effect(enum.Enum):
    """What a message that came in did."""

    RECORDED = "recorded"
    KNOWN = "known"
    """It came before, or tells nothing new."""
    EARLY = "early"
    """The outcome of the sending is not written yet: the same message a moment later may find it so."""
    IGNORED = "ignored"
    """It is about nothing that was sent, or reports nothing."""


def record_report(transaction: Transaction, recipient_id: int, report: Report, fingerprint: str) -> Effect:
    """Writes what the report says, once. `fingerprint` is the same for each copy of the report."""
    account_id = transaction.scalar(select(Recipient.account_id).where(Recipient.id == recipient_id))
    if account_id is None:
        return Effect.IGNORED
    if report.kind in (Kind.COMPLAINT, Kind.OPT_OUT):
        lock_subscriptions(transaction, account_id)
    mail = locked_mail(transaction, recipient_id)
    if mail is None or _means_somebody_else(mail, report):
        return Effect.IGNORED
    if mail.state == RecipientState.SENDING:
        return Effect.EARLY
    if _is_one_too_many(transaction, mail, report):
        return Effect.KNOWN
    if not _is_new(transaction, mail, f"{report.kind.value} {recipient_id} {fingerprint}"):
        return Effect.KNOWN
    effect = _apply(transaction, mail, report)
    if effect is Effect.RECORDED:
        logger.info(report.kind.value, extra={"request_id": mail.request_id, "uuid": mail.uuid, "detail": report.words})
    return effect


def _means_somebody_else(mail: Mail, report: Report) -> bool:
    """A report may be about the blind copy. Other addresses are those that the recipient forwards its mail to; one
    that was only guessed has to be the recipient's own."""
    if report.guessed:
        return email_key(mail.email or "") not in report.about
    return mail.is_about_copy(report.about)


def _is_one_too_many(transaction: Transaction, mail: Mail, report: Report) -> bool:
    """Whoever knows the return path can report delays and arrivals for ever."""
    if report.kind not in REPORTED:
        return False
    same = select(func.count()).where(
        RecipientStep.recipient_id == mail.id, RecipientStep.step == REPORTED[report.kind]
    )
    return (transaction.scalar(same) or 0) >= MOST_REPORTS


def _is_new(transaction: Transaction, mail: Mail, fingerprint: str) -> bool:
    """Remembers the report. The lock on the recipient keeps a copy from coming in between."""
    seen = select(func.count()).where(
        InboundRecord.account_id == mail.account_id, InboundRecord.fingerprint == fingerprint
    )
    if transaction.scalar(seen):
        return False
    row = {"account_id": mail.account_id, "fingerprint": fingerprint, "kind": "email report", "time": now()}
    insert_new_rows(transaction, InboundRecord, [row])
    return True


def _apply(transaction: Transaction, mail: Mail, report: Report) -> Effect:
    match report.kind:
        case Kind.FAILED:
            return _bounce(transaction, mail, report)
        case Kind.COMPLAINT:
            return _complain(transaction, mail, report)
        case Kind.OPT_OUT:
            apply_unsubscribe(transaction, mail.wish())
        case Kind.DELAYED | Kind.ARRIVED:
            words = bounce_string(DeliveryResult.deferred(report.words, report.status))
            mail.add_step(transaction, REPORTED[report.kind], words, now())
    return Effect.RECORDED


def _bounce(transaction: Transaction, mail: Mail, report: Report) -> Effect:
    """One that is uncertain, or queued after a try, had arrived at a mail server that could not tell us so."""
    if mail.state not in MAY_STILL_BOUNCE or not mail.attempts:
        return Effect.KNOWN
    moment, temporary = now(), (report.status or "").startswith("4")
    diagnostic = bounce_string(DeliveryResult.refused(report.words, report.status))
    mail.change(transaction, state=RecipientState.BOUNCED, reason=diagnostic)
    touched = note_bounce(
        transaction, Address(mail.account_id, email_key(mail.email or "")), mail.id, temporary=temporary
    )
    told = mail.event(
        "bounced",
        moment,
        bounce_reason=bounce_reason(report.status),
        bounce_string=diagnostic,
        is_temporary_bounce=temporary,
    )
    updates = contact_events("updated", touched.get(mail.account_id, ()), moment)
    record(transaction, mail.account_id, [told, *updates])
    mail.add_step(transaction, TimelineStep.BOUNCED, diagnostic, moment)
    count_in_group(transaction, mail.group_id, bounced=1, delivered=-1 if mail.state == RecipientState.DELIVERED else 0)
    return Effect.RECORDED


def _complain(transaction: Transaction, mail: Mail, report: Report) -> Effect:
    """Who calls a message spam wants no more of them, so this unsubscribes, too; the group counts it as such."""
    if mail.complaint_time is not None or mail.email is None:
        return Effect.KNOWN
    moment = now()
    mail.change(transaction, complaint_time=moment)
    mail.add_step(transaction, TimelineStep.COMPLAINED, report.words, moment)
    apply_unsubscribe(transaction, mail.wish(), block_reason=COMPLAINT)
    return Effect.RECORDED
