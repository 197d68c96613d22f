"""What became of the messages that branches ask about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import func, select

from app.automations.facts import Fate
from app.db.database import Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import Recipient, RecipientStep
from app.recipients.timeline import TimelineStep
from app.tracking.visits import link_of_detail

STEPS = {
    TimelineStep.SENT: "delivered",
    TimelineStep.ACKNOWLEDGED: "delivered",
    TimelineStep.REPORTED_ARRIVED: "delivered",
    TimelineStep.BOUNCED: "bounced",
    TimelineStep.OPENED: "opened",
    TimelineStep.CLICKED: "clicked",
    TimelineStep.RECEIVED: "replied",
}
"""Step of the timeline -> what a branch calls it. A click is an open, too. A text message counts as delivered once the
carrier has taken it, as in the report of its step."""


def load_fates(transaction: Transaction, recipient_ids: Collection[int]) -> dict[int, Fate]:
    """The fate of each recipient to whom anything has happened. The recipients are locked: what happens to them from
    here on is written after this transaction, and finds the waits that it writes (app/automations/watches.py)."""
    if not recipient_ids:
        return {}
    of_recipients = in_json(Recipient.id, recipient_ids), between_ids(Recipient.id, recipient_ids)
    lock = select(Recipient.id).where(*of_recipients).order_by(Recipient.id)
    transaction.execute(lock.with_for_update(read=True))
    step = RecipientStep
    first = func.min(step.time, type_=step.time.type)
    statement = (
        select(step.recipient_id, step.step, step.detail, first)
        .where(
            in_json(step.recipient_id, recipient_ids),
            between_ids(step.recipient_id, recipient_ids),
            step.step.in_(STEPS),
        )
        .group_by(step.recipient_id, step.step, step.detail)
    )
    times: dict[int, dict[str, datetime]] = defaultdict(dict)
    clicks: dict[int, dict[str, datetime]] = defaultdict(dict)
    for recipient_id, name, detail, moment in transaction.execute(statement):
        if name == TimelineStep.CLICKED:
            _earliest(clicks[recipient_id], link_of_detail(name, detail), moment)
            _earliest(times[recipient_id], "opened", moment)
        else:
            _earliest(times[recipient_id], STEPS[TimelineStep(name)], moment)
    return {recipient_id: Fate(**found, clicked=clicks.get(recipient_id, {})) for recipient_id, found in times.items()}


def _earliest(times: dict[str, datetime], name: str, moment: datetime) -> None:
    times[name] = min(times.get(name, moment), moment)
