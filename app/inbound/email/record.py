"""Bounce processing: writing what a report says of an email (docs/inbound.md#reports).

    failed, 5.x.x   hard bounce: event `bounced`; counted in `bounced` and no longer in `delivered`; blocks the address
    failed, 4.x.x   soft bounce: the same, but only the fifth without a delivery in between blocks the address
    delayed         a step of the timeline
    complaint       the address is blocked and unsubscribed from the list
    opt-out         the address is unsubscribed from the list

Each but a failure proves that the mail had arrived at a server that answers for it. One that waits for another attempt,
or had failed after one, then ends as delivered and is not sent again; one that is held keeps the proof for its release.

Everything happens once: a recipient bounces once, complains once, and a repeated report is known.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, select

from app.addresses import email_key
from app.clock import now
from app.contacts.blocked import COMPLAINT
from app.contacts.subscriptions import lock_subscriptions
from app.db.database import Transaction
from app.db.models import Contact, List, Recipient, RecipientStep, Send
from app.inbound.effect import Effect, is_first
from app.inbound.email.report import Report, ReportKind
from app.recipients.redaction import without_address
from app.recipients.row import (
    RecipientRow,
    add_steps,
    as_recipient,
    has_step,
    lock_queue_entry,
    lock_recipient,
    select_recipients,
    update_recipients,
)
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.arrival import STATES_ENDED_BY_ARRIVAL, was_attempted, write_arrival
from app.sends.outcomes.bounce_blocking import write_late_bounce
from app.sends.outcomes.transitions import MAY_STILL_BOUNCE, Bounce, bounce_string
from app.tracking.feedback_channels import UnsubscribeRequest, apply_unsubscribe

logger = logging.getLogger(__name__)


# A sent email, with what reports about it need.


class Mail(NamedTuple):
    """A recipient of an email; its `list_id` is that of a list that still exists."""

    recipient: RecipientRow
    complaint_time: datetime | None
    bcc_address: str | None

    def may_be_about_copy(self, about: frozenset[str]) -> bool:
        """Whether addresses of a report may be those of the blind copy, or of one to whom it was forwarded: they are
        not the recipient's, and both mails have the same return path."""
        return bool(self.bcc_address and about) and email_key(self.recipient.email or "") not in about


def locked_mail(transaction: Transaction, recipient_id: int) -> Mail | None:
    """The email, locked with its queue entry until the end of the transaction; None for one that is gone. A recipient
    named by its contact has no address of its own until the outcome is written."""
    lock_recipient(transaction, recipient_id)
    lock_queue_entry(transaction, recipient_id)
    statement = (
        select_recipients(
            Recipient.complaint_time,
            Send.bcc_address,
            list_id=List.id,
            email=func.coalesce(Recipient.email, Contact.email),
        )
        .outerjoin(List, List.id == Recipient.list_id)
        .outerjoin(Contact, Contact.id == Recipient.contact_id)
        .where(Recipient.type == "email", Recipient.id == recipient_id)
    )
    row = transaction.connection().execute(statement).first()
    return Mail(as_recipient(row), row.complaint_time, row.bcc_address) if row else None


STEP_BY_REPORT_KIND = {
    ReportKind.DELAYED: TimelineStep.REPORTED_DELAYED,
    ReportKind.ARRIVED: TimelineStep.REPORTED_ARRIVED,
}
"""Reports that only add a step to the timeline."""
ARRIVAL_STEP_BY_REPORT_KIND = {
    **STEP_BY_REPORT_KIND,
    ReportKind.COMPLAINT: TimelineStep.COMPLAINED,
    ReportKind.OPT_OUT: TimelineStep.UNSUBSCRIBED,
}
"""Reports that only a mail that arrived somewhere can cause."""
MAX_STEPS = 20
"""Maximum of such reports about one mail; further ones add nothing."""


def record_report(transaction: Transaction, recipient_id: int, report: Report, fingerprint: str) -> Effect:
    """Writes what the report says, once. `fingerprint` is the same for each copy of the report."""
    account_id = transaction.scalar(select(Recipient.account_id).where(Recipient.id == recipient_id))
    if account_id is None:
        return Effect.IGNORED
    if report.kind in (ReportKind.COMPLAINT, ReportKind.OPT_OUT):
        lock_subscriptions(transaction, account_id)
    mail = locked_mail(transaction, recipient_id)
    if mail is None or _is_about_another_address(mail, report) or _is_forgotten(transaction, mail):
        return Effect.IGNORED
    recipient = mail.recipient
    if recipient.state == RecipientState.SENDING:
        return Effect.EARLY
    if _is_beyond_limit(transaction, recipient, report):
        return Effect.KNOWN
    if not is_first(transaction, account_id, fingerprint_of_report(recipient_id, report, fingerprint), "email report"):
        return Effect.KNOWN
    effect = _apply(transaction, mail, report)
    if effect is Effect.RECORDED:
        detail = without_address(report.detail, recipient.email)
        extra = {"request_id": recipient.request_id, "uuid": recipient.uuid, "detail": detail}
        logger.info(report.kind.value, extra=extra)
    return effect


def fingerprint_of_report(recipient_id: int, report: Report, fingerprint: str) -> str:
    """The fingerprint of a report about one recipient, as it is stored."""
    return f"{report.kind.value} {recipient_id} {fingerprint}"


def _is_forgotten(transaction: Transaction, mail: Mail) -> bool:
    """A report would bring words about the person back."""
    return mail.recipient.email is None and has_step(transaction, mail.recipient.id, TimelineStep.FORGOTTEN)


def _is_about_another_address(mail: Mail, report: Report) -> bool:
    """A report may be about the blind copy. Without one, other addresses are those that the recipient forwards its mail
    to; one that was only guessed must be the recipient's own."""
    if report.guessed:
        return email_key(mail.recipient.email or "") not in report.addresses
    return mail.may_be_about_copy(report.addresses)


def _is_beyond_limit(transaction: Transaction, recipient: RecipientRow, report: Report) -> bool:
    """Anybody who knows the return path can report delays and arrivals for ever."""
    if report.kind not in STEP_BY_REPORT_KIND:
        return False
    same = select(func.count()).where(
        RecipientStep.recipient_id == recipient.id, RecipientStep.step == STEP_BY_REPORT_KIND[report.kind]
    )
    return (transaction.scalar(same) or 0) >= MAX_STEPS


def _apply(transaction: Transaction, mail: Mail, report: Report) -> Effect:
    if report.kind in ARRIVAL_STEP_BY_REPORT_KIND and _is_ended_by_arrival(transaction, mail.recipient):
        write_arrival(transaction, mail.recipient, ARRIVAL_STEP_BY_REPORT_KIND[report.kind])
    match report.kind:
        case ReportKind.FAILED:
            return _bounce(transaction, mail.recipient, report)
        case ReportKind.COMPLAINT:
            return _complain(transaction, mail, report)
        case ReportKind.OPT_OUT:
            apply_unsubscribe(transaction, UnsubscribeRequest.of(mail.recipient))
        case ReportKind.DELAYED | ReportKind.ARRIVED:
            detail = bounce_string(report.detail, report.status)
            add_steps(transaction, [mail.recipient.step(STEP_BY_REPORT_KIND[report.kind], detail or None, now())])
    return Effect.RECORDED


def _is_ended_by_arrival(transaction: Transaction, recipient: RecipientRow) -> bool:
    """Whether the report ends the wait for an outcome. If the recipient has bounced and is sent again, it may be a late
    report of the mail that bounced."""
    if (
        recipient.state not in STATES_ENDED_BY_ARRIVAL
        or recipient.email is None
        or not was_attempted(transaction, recipient)
    ):
        return False
    return not has_step(transaction, recipient.id, TimelineStep.BOUNCED)


def _bounce(transaction: Transaction, recipient: RecipientRow, report: Report) -> Effect:
    if recipient.state not in MAY_STILL_BOUNCE:
        return Effect.KNOWN
    if recipient.state != RecipientState.HELD and not was_attempted(transaction, recipient):
        return Effect.KNOWN
    write_late_bounce(transaction, recipient, Bounce.from_dsn(report.detail, report.status))
    return Effect.RECORDED


def _complain(transaction: Transaction, mail: Mail, report: Report) -> Effect:
    """A reader who reports a message as spam wants no more of them, so this also unsubscribes; the group counts it as
    that."""
    recipient = mail.recipient
    if mail.complaint_time is not None or recipient.email is None:
        return Effect.KNOWN
    moment = now()
    update_recipients(transaction, [recipient.id], complaint_time=moment)
    add_steps(transaction, [recipient.step(TimelineStep.COMPLAINED, report.detail or None, moment)])
    apply_unsubscribe(transaction, UnsubscribeRequest.of(recipient), block_reason=COMPLAINT)
    return Effect.RECORDED
