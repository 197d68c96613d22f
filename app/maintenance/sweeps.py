"""Sweeps: what is found by looking, because nobody may be relied on to tell.

A wake-up can be lost with Redis, and nobody sends one for a row that becomes due by time or whose worker died. The
scheduler (jobs/schedule.py) asks the questions here twice a second, so each is one statement that an index answers,
however many rows there are. The slower half deletes what has been kept long enough.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import CursorResult, delete, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.clock import now
from app.db.models import (
    Base,
    DestinationPause,
    IdempotencyRecord,
    InboundRecord,
    TriggerFiring,
    WebhookAttempt,
    table_of,
)
from app.events import batches
from app.inbound import reassembly
from app.sends.delivery import claim
from app.sends.outcomes import uncertain
from app.services import Services

logger = logging.getLogger(__name__)

PAUSES_KEPT = timedelta(days=1)
"""After its end a pause is remembered for this long, so that the next one is longer."""
CHUNK = 1000
"""Rows deleted in one transaction: a writer waits for that, not for the whole of a large table."""


def sends_waiting(session: Session) -> bool:
    """Whether a worker would find something to send: a recipient that is due, one whose lease has run out, or one
    that has been uncertain for long enough."""
    return claim.has_due(session) or claim.has_expired_leases(session) or uncertain.has_uncertain_due(session)


def events_waiting(session: Session) -> bool:
    """Whether a webhook is due and has events."""
    return batches.has_due(session)


def replies_waiting(session: Session) -> bool:
    """Whether parts of a long reply have waited for the others for long enough."""
    return reassembly.has_overdue_parts(session)


def clean(services: Services) -> None:
    """Tells replies of which a part did not come. Deletes idempotency records, webhook attempts, trigger firings and
    marks of reports that came in, all that are older than their settings say, and pauses of destinations that are long
    over, and brings the planner's statistics up to date."""
    reassembly.flush_overdue(services)
    settings = services.settings
    idempotency = now() - timedelta(hours=settings.idempotency_hours)
    retention = now() - timedelta(days=settings.retention_days)
    _delete_older(services, IdempotencyRecord, IdempotencyRecord.creation_time, idempotency)
    _delete_older(services, WebhookAttempt, WebhookAttempt.time, retention)
    _delete_older(services, TriggerFiring, TriggerFiring.time, retention)
    _delete_older(services, InboundRecord, InboundRecord.time, retention)
    _delete_older(services, DestinationPause, DestinationPause.until_time, now() - PAUSES_KEPT)
    services.database.refresh_statistics()


def _delete_older(
    services: Services, model: type[Base], time: InstrumentedAttribute[datetime], moment: datetime
) -> None:
    total = 0
    while not services.stopping.is_set():
        deleted = _delete_chunk(services, model, time, moment)
        total += deleted
        if deleted < CHUNK:
            break
    if total:
        logger.info("cleaned %s", model.__tablename__, extra={"rows": total})


def _delete_chunk(
    services: Services, model: type[Base], time: InstrumentedAttribute[datetime], moment: datetime
) -> int:
    key = table_of(model).c.id
    oldest = select(key).where(time < moment).order_by(time).limit(CHUNK)
    with services.database.write() as transaction:
        result: CursorResult[Any] = transaction.connection().execute(delete(model).where(key.in_(oldest)))
        return result.rowcount
