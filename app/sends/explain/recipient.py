"""What has become of one message, in words (docs/delivery.md#recipient-states)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KIND_BY_TYPE, AccountAddress
from app.clock import now
from app.db.models import Account, Contact, QueueEntry, Recipient, RecipientStep, Send
from app.recipients.current import current_entry
from app.recipients.reasons import NOT_RETRYABLE, FailReason
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.explain.finding import Command, Finding, at
from app.sends.explain.obstacles import Route, obstacles

LATE = timedelta(minutes=1)
"""A message that has been due for longer than this tells of senders that do not run."""
REASONS = {
    FailReason.INVALID_CONTACT_ID: "its contact_id was not in the list",
    FailReason.CONTACT_DELETED: "its contact was deleted before it was sent",
    FailReason.CONTACT_INACTIVE: "its contact was not active",
    FailReason.ADDRESS_MISSING: "its contact had no address of this kind",
    FailReason.BLOCKED: "its address was blocked",
    FailReason.UNSUBSCRIBED: "its address was unsubscribed",
    FailReason.TOO_LARGE: "it exceeded a size limit; the timeline names the limit",
    FailReason.CONTENT_MISSING: "its text was empty after personalisation",
    FailReason.UNREADABLE_VALUES: "its secret values could not be decrypted; SECRET_KEY was another one",
    FailReason.REJECTED: "the gateway refused it",
    FailReason.EXPIRED: "it was deferred until the end of the retry period",
    FailReason.DROPPED: "it was held after a backup was restored, and an operator dropped it",
}
ATTEMPTED = (
    TimelineStep.DEFERRED,
    TimelineStep.UNCERTAIN,
    TimelineStep.SENT,
    TimelineStep.BOUNCED,
    TimelineStep.FAILED,
)


@dataclass(frozen=True, slots=True)
class Explained:
    """A recipient with its state, and what there is to say about it."""

    recipient: Recipient
    state: RecipientState
    address: str | None
    findings: tuple[Finding, ...]


def explain_recipient(session: Session, recipient: Recipient, retry_period: int, in_account: Command) -> Explained:
    """What has become of the recipient. `in_account` are the words by which commands name its account."""
    entry = current_entry(session, recipient)
    state = RecipientState(entry.state if entry else recipient.state)
    route = _route(session, recipient, in_account)
    said = [*_fate(session, recipient, entry, state, retry_period)]
    if state not in (RecipientState.SENT, RecipientState.DELIVERED):
        hindering = [*obstacles(session, route)]
        said += hindering
        purged = session.scalar(select(Send.content_purged_time).where(Send.id == recipient.send_id))
        said += _retry(recipient, state, purged, after=any(one.prevents for one in hindering))
    return Explained(recipient, state, route.address.key if route.address else None, tuple(said))


def _route(session: Session, recipient: Recipient, in_account: Command) -> Route:
    """The address is that of the contact until a message has been sent to it."""
    send = session.get_one(Send, recipient.send_id)
    kind = ADDRESS_KIND_BY_TYPE[recipient.type]
    text: str | None = getattr(recipient, kind)
    if text is None and recipient.contact_id is not None:
        of_account = Contact.account_id == recipient.account_id, Contact.id == recipient.contact_id
        text = session.scalar(select(getattr(Contact, kind)).where(*of_account))
    return Route(
        account=session.get_one(Account, recipient.account_id),
        kind=kind,
        address=AccountAddress.of(recipient.account_id, kind, text) if text else None,
        in_account=in_account,
        list_id=recipient.list_id,
        contact_id=recipient.contact_id,
        sender=send.from_address if recipient.type == "email" else None,
        include_unsubscribed=send.include_unsubscribed,
    )


def _fate(
    session: Session, recipient: Recipient, entry: QueueEntry | None, state: RecipientState, retry_period: int
) -> Iterator[Finding]:
    last = _last_attempt(session, recipient)
    said = f": {last.detail}" if last is not None and last.detail else "."
    match state:
        case RecipientState.QUEUED if entry is not None:
            yield _waiting(recipient, entry, last, said, retry_period)
        case RecipientState.SENDING if entry is not None:
            until = at(entry.lease_time)
            yield Finding(
                f"A sender is transmitting it now; should that sender have died, it is queued again at {until}."
            )
        case RecipientState.UNCERTAIN if entry is not None:
            yield _uncertain(recipient, entry)
        case RecipientState.HELD if entry is not None:
            yield _held(recipient, entry)
        case RecipientState.PAUSED if entry is not None:
            yield _paused(entry)
        case RecipientState.SENT:
            yield Finding(f"The gateway accepted it at {at(recipient.sent_time)}; no receipt has come since.")
        case RecipientState.DELIVERED:
            yield from _delivered(recipient, said)
        case RecipientState.BOUNCED:
            yield Finding(f"It bounced at {at(last.time if last else None)}: {recipient.reason}")
        case RecipientState.FAILED:
            reason = REASONS.get(recipient.reason or "", recipient.reason)  # type: ignore[call-overload]
            yield Finding(f"It failed at {at(last.time if last else None)}, because {reason} ({recipient.reason}).")


def _last_attempt(session: Session, recipient: Recipient) -> RecipientStep | None:
    steps = select(RecipientStep).where(RecipientStep.recipient_id == recipient.id, RecipientStep.step.in_(ATTEMPTED))
    return session.scalars(steps.order_by(RecipientStep.id.desc()).limit(1)).first()


def _waiting(
    recipient: Recipient, entry: QueueEntry, last: RecipientStep | None, said: str, retry_period: int
) -> Finding:
    is_late = now() - max(entry.due_time, entry.ready_time) > LATE
    commands = [("status",)] if is_late else []
    late = " No sender has taken it since: check that workers run." if is_late else ""
    if last is None or last.step != TimelineStep.DEFERRED:
        return Finding(f"It waits for a sender since {at(entry.due_time)}; no attempt has failed.{late}", commands)
    end = at(recipient.creation_time + timedelta(seconds=retry_period))
    text = f"It was deferred at {at(last.time)}, in attempt {entry.attempts}{said}"
    return Finding(f"{text}\nThe next attempt is due at {at(entry.due_time)}, the last one at {end}.{late}", commands)


def _uncertain(recipient: Recipient, entry: QueueEntry) -> Finding:
    text = (
        f"It may have arrived: the connection was lost before the relay's answer. Until {at(entry.due_time)} a sign of "
        "arrival makes it delivered; then it is sent again with the same Message-ID.\n"
        "If the relay's log shows that the relay never had it, send it at once:"
    )
    return Finding(text, [("sends", "retry", recipient.uuid)])


def _held(recipient: Recipient, entry: QueueEntry) -> Finding:
    text = (
        f"It is held: it came with a backup that was restored, in which it was {entry.held_state}, due at "
        f"{at(entry.due_time)}. It may have been sent since the backup was made, so it is not sent by itself.\n"
        "Send it, or end it as sent or as failed:"
    )
    one = ("messages", "--uuid", recipient.uuid)
    drops = [("holds", "drop", *one, "--as", outcome) for outcome in ("sent", "failed")]
    return Finding(text, [("holds", "release", *one), *drops])


def _paused(entry: QueueEntry) -> Finding:
    """What is paused, and the command that goes on, is an obstacle."""
    return Finding(f"It is paused: due at {at(entry.due_time)}, it keeps its place, and is sent once the pause ends.")


def _delivered(recipient: Recipient, said: str) -> Iterator[Finding]:
    if recipient.type == "sms":
        yield Finding("A receipt has confirmed it: it is on the handset.")
        return
    yield Finding(f"The next mail server accepted it at {at(recipient.sent_time)}{said}")
    if recipient.first_open_time is not None:
        yield Finding(f"It was opened at {at(recipient.first_open_time)}.")
    elif recipient.complaint_time is None:
        yield Finding(
            "What became of it there is not known here: look into the log of that mail server, or the spam folder."
        )
    if recipient.complaint_time is not None:
        yield Finding(f"It was reported as spam at {at(recipient.complaint_time)}, which blocks the address.")


def _retry(recipient: Recipient, state: RecipientState, purged: datetime | None, *, after: bool) -> Iterator[Finding]:
    if state not in (RecipientState.BOUNCED, RecipientState.FAILED):
        return
    if recipient.reason in NOT_RETRYABLE:
        yield Finding("It cannot be sent again: there is no contact. Make a new send to one that exists.")
    elif purged is not None:
        yield Finding(f"It cannot be sent again: its content was purged at {at(purged)}. Make a new send.")
    else:
        when = "Once that is mended, send" if after else "Nothing stands in its way now. Send"
        yield Finding(f"{when} it again:", [("sends", "retry", recipient.uuid)])
