"""What has become of one message, in words (docs/delivery.md#recipient-states)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Select, and_, or_, select
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KIND_BY_TYPE, AccountAddress, address_forms
from app.clock import now
from app.contacts.subscriptions import ADDRESS_COLUMNS
from app.db.expressions import in_json
from app.db.models import Account, Contact, QueueEntry, Recipient, RecipientStep, Send
from app.recipients.conditions import current_entry
from app.recipients.filters import sent_to
from app.recipients.states import NOT_PERMITTED_PREFIX, POSTPONEMENTS, FailReason, RecipientState, WaitReason
from app.recipients.timeline import TimelineStep
from app.routing.table import DEFAULT_TRANSPORT
from app.sends.explain.again import sending_again
from app.sends.explain.obstacles import obstacles
from app.sends.explain.waits import Command, Finding, Route, at, transport_trial
from app.sends.outcomes.attempt_result import INTERNAL_FAULT
from app.sends.skipping import MESSAGE_TYPES, load_contacts, suppression_key
from app.settings import Settings

LATE_AFTER = timedelta(minutes=1)
"""A message that has been due for longer than this tells of senders that do not run."""
REASONS: Mapping[FailReason, str] = {
    FailReason.INVALID_CONTACT_ID: "its contact_id was not in the list",
    FailReason.CONTACT_DELETED: "its contact was deleted before it was sent",
    FailReason.CONTACT_INACTIVE: "its contact was not active",
    FailReason.ADDRESS_MISSING: "its contact had no address of this kind",
    FailReason.BLOCKED: "its address was blocked",
    FailReason.UNSUBSCRIBED: "its address was unsubscribed",
    FailReason.TOO_LARGE: "it exceeded a size limit; the timeline names the limit",
    FailReason.CONTENT_MISSING: "its text was empty after personalisation",
    FailReason.UNREADABLE_VALUES: "its secret values could not be decrypted, because SECRET_KEY had changed",
    FailReason.REJECTED: "the gateway refused it",
    FailReason.EXPIRED: "it was deferred until the end of the retry period",
    FailReason.CANCELLED: "it was cancelled before it was sent",
    FailReason.DROPPED: "it was held after a restore, and an operator dropped it",
    FailReason.FORGOTTEN: "its recipient was forgotten while it waited",
}
ATTEMPT_STEPS = (
    TimelineStep.DEFERRED,
    TimelineStep.UNCERTAIN,
    TimelineStep.SENT,
    TimelineStep.BOUNCED,
    TimelineStep.FAILED,
)
NO_TRANSPORT = POSTPONEMENTS[WaitReason.NO_TRANSPORT].text
ARRIVED_STATES = (RecipientState.SENT, RecipientState.DELIVERED)
_REPLY_CODE = re.compile(r"[245]\d\d\b")
"""How the reply of a mail server begins; other texts of deferrals are those of a transport, or our own."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A recipient with its state, and what there is to say about it."""

    recipient: Recipient
    state: RecipientState
    address: str | None
    findings: tuple[Finding, ...]
    is_forgotten: bool = False


def explain_recipient(session: Session, recipient: Recipient, settings: Settings, in_account: Command) -> Explanation:
    """What has become of the recipient. `in_account` are the words by which commands name its account."""
    entry = current_entry(session, recipient)
    state = RecipientState(entry.state if entry else recipient.state)
    if (forgotten := _last_step(session, recipient, TimelineStep.FORGOTTEN)) is not None:
        return Explanation(recipient, state, None, (_forgotten(forgotten, state),), is_forgotten=True)
    last = _last_step(session, recipient, *ATTEMPT_STEPS)
    route = _route(session, recipient, entry, last, in_account)
    said = [*_fate(recipient, entry, last, state, _last_attempt(recipient, route.send, settings))]
    if state not in ARRIVED_STATES:
        hindering = [*obstacles(session, route)]
        said += hindering
        if entry is not None and last is not None and last.step == TimelineStep.DEFERRED:
            said += _put_off(last, route)
        is_hindered = any(finding.prevents for finding in hindering)
        said += sending_again(session, settings, recipient, state, is_hindered=is_hindered)
    return Explanation(recipient, state, route.address.key if route.address else None, tuple(said))


def _forgotten(step: RecipientStep, state: RecipientState) -> Finding:
    text = f"Its recipient was forgotten at {at(step.time)}: the address and all texts were removed. It is {state}."
    return Finding(text if state in ARRIVED_STATES else f"{text} It cannot be retried.")


def _route(
    session: Session, recipient: Recipient, entry: QueueEntry | None, last: RecipientStep | None, in_account: Command
) -> Route:
    """The address is that of the contact until a message has been sent to it."""
    contact = load_contacts(session, [recipient]).get(recipient.id)
    is_put_off = entry is not None and entry.state == RecipientState.QUEUED and entry.ready_time > now()
    has_deferred = last is not None and last.step == TimelineStep.DEFERRED
    return Route(
        account=session.get_one(Account, recipient.account_id),
        kind=ADDRESS_KIND_BY_TYPE[recipient.type],
        address=suppression_key(recipient, contact),
        in_account=in_account,
        list_id=recipient.list_id,
        contact_id=recipient.contact_id,
        contact=contact,
        send=session.get_one(Send, recipient.send_id),
        turn=entry.ready_time if entry is not None and is_put_off and not has_deferred else None,
    )


def _last_attempt(recipient: Recipient, send: Send | None, settings: Settings) -> datetime:
    """When the retry period ends."""
    send_at = send.send_at if send is not None else None
    return (send_at or recipient.creation_time) + timedelta(seconds=settings.retry_period)


def _fate(
    recipient: Recipient, entry: QueueEntry | None, last: RecipientStep | None, state: RecipientState, end: datetime
) -> Iterator[Finding]:
    said = f": {last.detail}" if last is not None and last.detail else "."
    match state:
        case RecipientState.SCHEDULED if entry is not None:
            yield Finding(f"It is scheduled for {at(entry.due_time)}.")
        case RecipientState.QUEUED if entry is not None:
            yield _waiting(entry, last, said, end)
        case RecipientState.SENDING if entry is not None:
            yield _sending(entry)
        case RecipientState.UNCERTAIN if entry is not None:
            yield _uncertain(entry, end)
        case RecipientState.HELD if entry is not None:
            yield _held_finding(recipient, entry)
        case RecipientState.PAUSED if entry is not None:
            yield _paused(entry)
        case RecipientState.SENT:
            yield Finding(f"The gateway accepted it at {at(recipient.sent_time)}. No receipt has arrived yet.")
        case RecipientState.DELIVERED:
            yield from _delivered(recipient, said)
        case RecipientState.BOUNCED:
            yield Finding(f"It bounced at {at(last.time if last else None)}: {recipient.reason}")
        case RecipientState.FAILED:
            reason = REASONS.get(recipient.reason or "", recipient.reason)  # type: ignore[call-overload]
            yield Finding(f"It failed at {at(last.time if last else None)}, because {reason} ({recipient.reason}).")


def _last_step(session: Session, recipient: Recipient, *names: TimelineStep) -> RecipientStep | None:
    steps = select(RecipientStep).where(RecipientStep.recipient_id == recipient.id, RecipientStep.step.in_(names))
    return session.scalars(steps.order_by(RecipientStep.id.desc()).limit(1)).first()


def _waiting(entry: QueueEntry, last: RecipientStep | None, said: str, end: datetime) -> Finding:
    moment, due = now(), entry.ready_time
    is_late = moment - due > LATE_AFTER
    commands = [("status",)] if is_late else []
    late = " No worker has taken it yet. Check that workers are running." if is_late else ""
    if last is not None and last.step == TimelineStep.DEFERRED:
        text = f"It was deferred at {at(last.time)}, in attempt {entry.attempts}{said}"
        ends = (
            f"the last one at {at(end)}" if end > moment else "and it is the last one, because the retry period is over"
        )
        return Finding(f"{text}\nThe next attempt is due at {at(due)}, {ends}.{late}", commands)
    before = "no attempt has failed" if last is None else f"it {last.step} at {at(last.time)}, and was queued again"
    if due > moment:
        return Finding(f"It is deferred until {at(due)}. This does not count as an attempt; {before}.")
    return Finding(f"It has been due since {at(due)}; {before}.{late}", commands)


def _put_off(last: RecipientStep, route: Route) -> Iterator[Finding]:
    """What to do about a deferral that no mail server has answered with, unless it is a matter of `waits`."""
    text = last.detail or ""
    if text.startswith(INTERNAL_FAULT):
        yield Finding("This is an error in the service or in an installed transport. The log has the details.")
    elif not (_REPLY_CODE.match(text) or text.startswith(NOT_PERMITTED_PREFIX) or text == NO_TRANSPORT):
        name = last.transport or DEFAULT_TRANSPORT
        said = (
            f"The transport {name} could not hand it over. To test the transport, send a message to your own address:"
        )
        yield Finding(said, transport_trial(name, route.send))


def _sending(entry: QueueEntry) -> Finding:
    until = at(entry.lease_time)
    if entry.lease_time is not None and now() - entry.lease_time > LATE_AFTER:
        text = f"A worker had it until {until}, but has not reported a result. Another worker queues it again. Check "
        return Finding(f"{text}that workers are running.", [("status",)])
    return Finding(f"A worker is sending it now. If the worker has died, it is queued again at {until}.")


def _uncertain(entry: QueueEntry, end: datetime) -> Finding:
    is_last = max(entry.due_time, now()) >= end
    then = "it bounces, because the retry period is over" if is_last else "it is sent again with the same Message-ID"
    return Finding(
        f"It may have arrived: the connection was lost before the relay answered. If there is no sign of arrival by "
        f"{at(entry.due_time)}, {then}."
    )


def _held_finding(recipient: Recipient, entry: QueueEntry) -> Finding:
    text = (
        f"It is held, because it comes from a restored backup. There it was {entry.held_state}, due at "
        f"{at(entry.due_time)}. It may have been sent after the backup was made, so it is not sent automatically.\n"
        "Release it, or drop it as sent or as failed:"
    )
    message_option = ("messages", "--uuid", recipient.uuid)
    drops = [("holds", "drop", *message_option, "--as", outcome) for outcome in ("sent", "failed")]
    return Finding(text, [("holds", "release", *message_option), *drops])


def _paused(entry: QueueEntry) -> Finding:
    """What is paused, and the command that goes on, is an obstacle."""
    return Finding(
        f"It is paused. It was due at {at(entry.due_time)}, keeps its place, and is sent when the pause ends."
    )


def _delivered(recipient: Recipient, said: str) -> Iterator[Finding]:
    if recipient.type == "sms":
        yield Finding("A receipt confirms that it arrived on the handset.")
        return
    yield Finding(f"The next mail server accepted it at {at(recipient.sent_time)}{said}")
    if recipient.first_open_time is not None:
        yield Finding(f"It was opened at {at(recipient.first_open_time)}.")
    elif recipient.complaint_time is None:
        yield Finding("What happened after that is unknown. Check the log of that mail server, or the spam folder.")
    if recipient.complaint_time is not None:
        yield Finding(f"It was reported as spam at {at(recipient.complaint_time)}, which blocks the address.")


# The messages to an address.

MAX_CONTACTS = 100


def messages_to(session: Session, address: AccountAddress) -> ColumnElement[bool]:
    """The condition on recipients of the account that their messages went to the address, or will: those named by
    `contact_id` have the address of their contact until a message was sent."""
    contacts = select(Contact.id).where(
        Contact.account_id == address.account_id, ADDRESS_COLUMNS[address.kind].in_(address_forms(address.key))
    )
    ids = session.scalars(contacts.limit(MAX_CONTACTS)).all()
    if not ids:
        return sent_to(address)
    address_column = Recipient.email if address.kind == "email" else Recipient.mobile
    named = and_(
        in_json(Recipient.contact_id, ids), address_column.is_(None), Recipient.type == MESSAGE_TYPES[address.kind]
    )
    return or_(sent_to(address), and_(Recipient.contact_id.is_not(None), named))


def newest_messages(session: Session, address: AccountAddress) -> Select[Recipient]:
    """The recipients, the newest first."""
    account_filter = Recipient.account_id == address.account_id
    statement = select(Recipient).where(account_filter, messages_to(session, address))
    return statement.order_by(Recipient.creation_time.desc(), Recipient.id.desc())
