"""Whether a message can be sent again, or what would keep it from being sent: by the rules of a retry, and by the code
that sends."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.db.models import Recipient
from app.recipients.states import FailReason, RecipientState
from app.sends.explain.waits import Finding
from app.sends.outcomes.recovery import UNANSWERED
from app.sends.outcomes.requeue import RETRYABLE, RefusalReason, would_refuse
from app.sends.recompose import NotComposable, load_again, recompose
from app.settings import Settings

NEW_SEND = "make a new send"
CONTENT_REASONS = (FailReason.TOO_LARGE, FailReason.CONTENT_MISSING)
"""Reasons that lie in what the message says: it is composed again to see whether they last."""


def sending_again(
    session: Session, settings: Settings, recipient: Recipient, state: RecipientState, *, is_hindered: bool
) -> Iterator[Finding]:
    """How to send the message again, or why it cannot be. `is_hindered` is whether something that was named before
    stands in its way."""
    if state not in RETRYABLE:
        return
    refusal = would_refuse(session, [recipient.id], RETRYABLE).get(recipient.id)
    if refusal is not None and refusal.reason is not RefusalReason.BLOCKED:
        further = "" if NEW_SEND in refusal.detail else f"; {NEW_SEND}"
        yield Finding(f"It cannot be retried: {refusal.detail}{further}.")
    elif why := _unsendable(session, settings, recipient):
        yield Finding(f"A retry would fail again: {why}. Fix this first, or {NEW_SEND}.")
    elif state is RecipientState.UNCERTAIN or (_is_unanswered(recipient) and not is_hindered):
        text = "If the log of the relay shows that the relay never got it, retry it now:"
        yield Finding(text, [("sends", "retry", recipient.uuid)])
    else:
        when = "After you have fixed this, retry" if is_hindered else "Nothing blocks it now. Retry"
        yield Finding(f"{when} it:", [("sends", "retry", recipient.uuid)])


def _is_unanswered(recipient: Recipient) -> bool:
    """Whether the message has bounced although it may have arrived."""
    return (recipient.reason or "").startswith(UNANSWERED.reply)


def _unsendable(session: Session, settings: Settings, recipient: Recipient) -> str | None:
    """Why what the message says keeps it from being sent now as well; None if nothing of that does."""
    if recipient.reason not in CONTENT_REASONS:
        return None
    try:
        claimed = load_again(session, settings, recipient).recipient
        recompose(settings, claimed)
    except NotComposable as error:
        return str(error).removesuffix(".").removeprefix(NotComposable.NO_MESSAGE)
    other_recipients = Recipient.send_id == recipient.send_id, Recipient.id != recipient.id
    others = session.scalar(select(func.coalesce(func.sum(Recipient.rendered_bytes), 0)).where(*other_recipients)) or 0
    if others + claimed.rendered_bytes > settings.max_send_bytes:
        return f"with it, the send would render more than {settings.max_send_bytes} bytes in all (MAX_SEND_BYTES)"
    return None
