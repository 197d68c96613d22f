"""Why messages wait for a retry: what relays and gateways said last, for `flask status` (docs/cli.md#status).

Bounded: it reads those that are retried next, and the steps of their attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.expressions import in_json
from app.db.models import Account, QueueEntry, RecipientStep
from app.recipients.conditions import IS_READY
from app.recipients.states import NOT_PERMITTED
from app.recipients.timeline import TimelineStep
from app.routing.table import DEFAULT

MOST = 100
"""Messages that are looked at: those that are retried next."""


class PutOff(NamedTuple):
    """Messages that a transport has put off, up to `MOST` of all together, and the reply to the last attempt.
    `transport` is None where it was not asked, because the account lacks what `reply` says."""

    transport: str | None
    number: int
    reply: str


def read_put_off(session: Session, moment: datetime) -> list[PutOff]:
    """By transport, the most messages first. What was never attempted waits for another reason, and what test accounts
    send comes to no transport."""
    soonest = (
        select(QueueEntry.recipient_id, QueueEntry.account_id, QueueEntry.attempts)
        .where(IS_READY, QueueEntry.ready_time > moment)
        .order_by(QueueEntry.ready_time)
        .limit(MOST)
        .subquery()
    )
    attempted = (
        select(soonest.c.recipient_id)
        .join(Account, Account.id == soonest.c.account_id)
        .where(soonest.c.attempts > 0, Account.test_of.is_(None))
    )
    ids = session.scalars(attempted).all()
    return _by_transport(session, ids) if ids else []


def _by_transport(session: Session, recipient_ids: Sequence[int]) -> list[PutOff]:
    columns = RecipientStep.recipient_id, RecipientStep.transport, RecipientStep.detail, RecipientStep.note
    of_attempts = in_json(RecipientStep.recipient_id, recipient_ids), RecipientStep.step == TimelineStep.DEFERRED
    steps = session.execute(select(*columns).where(*of_attempts).order_by(RecipientStep.id)).all()
    last = {step.recipient_id: _key(step.transport, step.detail) for step in steps}
    replies = {_key(step.transport, step.detail): step.note or step.detail or "" for step in steps}
    return [PutOff(key[0], number, replies[key]) for key, number in Counter(last.values()).most_common()]


def _key(transport: str | None, detail: str | None) -> tuple[str | None, str | None]:
    """What the messages have in common: the transport, or what their account lacks."""
    return (None, detail) if (detail or "").startswith(NOT_PERMITTED) else (transport or DEFAULT, None)
