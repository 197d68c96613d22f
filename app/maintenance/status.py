"""Status figures of an installation over all accounts: queued and unfinished work.

Each is one statement. Those of the send queue read its partial indexes, whose size is that of the unfinished work.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, Select, and_, func, select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.models import Event, Recipient, Webhook
from app.recipients.conditions import in_state
from app.recipients.states import RecipientState


def status(session: Session) -> dict[str, int]:
    """Numbers of recipients and events per status.

    `due` can be sent now and `deferred` later; `in_flight` are claimed, `abandoned` of them under an expired lease;
    `uncertain` may have arrived. `events_waiting` have not been accepted by their webhook, and `webhooks_in_flight`
    have a request in flight.
    """
    return {name: session.scalars(statement).one() for name, statement in figures(now()).items()}


def figures(moment: datetime) -> dict[str, Select[int]]:
    """The statement of each figure."""
    queued, sending = in_state(RecipientState.QUEUED), in_state(RecipientState.SENDING)
    return {
        "due": _recipients(and_(queued, Recipient.due_time <= moment)),
        "deferred": _recipients(and_(queued, Recipient.due_time > moment)),
        "in_flight": _recipients(sending),
        "abandoned": _recipients(and_(sending, Recipient.lease_time < moment)),
        "uncertain": _recipients(in_state(RecipientState.UNCERTAIN)),
        "events_waiting": select(func.count()).select_from(Event),
        "webhooks_in_flight": select(func.count()).select_from(Webhook).where(Webhook.lease_time.is_not(None)),
    }


def _recipients(condition: ColumnElement[bool]) -> Select[int]:
    return select(func.count()).select_from(Recipient).where(condition)
