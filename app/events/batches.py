"""The database side of dispatch: which webhook is due, what its next batch is, and what became of it.

A batch is fixed when it is claimed: its events carry its id. It keeps id and events until it is accepted or expires,
so that a receiver can tell a repetition by the `jti`, even one by another worker after the first has died. The lease
keeps a second request from starting meanwhile; whoever has lost it leaves the webhook alone.
"""

from __future__ import annotations

import logging
import secrets
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, CursorResult, Executable, Select, and_, delete, or_, select, update
from sqlalchemy.orm import Session

from app.clock import now, seconds_from_now
from app.db.bulk import insert_rows
from app.db.database import Transaction
from app.db.models import Event, Webhook, WebhookAttempt, WebhookSecret
from app.events.http_client import Answer
from app.metrics import WEBHOOK_TRIES
from app.presence import departed, present
from app.services import Services
from app.settings import Settings

MOST_EVENTS = 1000
"""Of one request (specification: Events, Delivery, 1)."""
LEASE = 90.0
"""Seconds; longer than any request can take."""
FIRST_DELAY = 10.0
LONGEST_DELAY = 3600.0

logger = logging.getLogger(__name__)
_chance = secrets.SystemRandom()


@dataclass(frozen=True, slots=True)
class Batch:
    """Events on their way to one webhook. `claim` proves that the lease is ours; secrets are as stored."""

    webhook_id: int
    account_id: int
    url: str
    claim: str
    batch_id: str
    payloads: list[str]
    stored_secrets: list[tuple[str, str]]


def presence_folder(settings: Settings) -> Path:
    """Where the processes of this machine that dispatch are present."""
    return settings.data_dir / "dispatchers"


def take_over(services: Services) -> None:
    """Ends the leases of processes of this machine that have died; those of other machines run out."""
    with departed(presence_folder(services.settings)) as names:
        if not names:
            return
        theirs = or_(*(Webhook.worker.startswith(f"{name}:", autoescape=True) for name in names))
        with services.database.write() as transaction:
            freed = _run(transaction, update(Webhook).where(theirs).values(lease_time=None, worker=None))
    if freed:
        logger.warning("took over what a dead process was sending", extra={"webhooks": freed})


def has_due(session: Session) -> bool:
    """Whether any webhook may be sent events now."""
    return session.scalars(select(Webhook.id).where(_is_due(now())).limit(1)).first() is not None


def claim(services: Services) -> Batch | None:
    """The next batch of the webhook that has been due for longest, under a lease; None when there is none."""
    with services.database.write() as transaction:
        webhook = _lock_due(transaction)
        if webhook is None:
            return None
        began = now()
        dropped = _drop_expired(transaction, webhook, began - timedelta(seconds=services.settings.webhook_expiry))
        payloads = _fix_batch(transaction, webhook)
        batch = _lease(transaction, webhook, payloads, began, services.settings) if payloads else None
    if dropped:
        logger.warning("webhook %s: dropped %s events that failed for too long", webhook.id, dropped)
    return batch


def delivered(services: Services, batch: Batch, answer: Answer) -> None:
    """The receiver has accepted the batch."""
    with services.database.write() as transaction:
        webhook = _still_ours(transaction, batch)
        if webhook is None:
            return
        _log_attempt(transaction, batch, answer, "delivered")
        _run(transaction, delete(Event).where(Event.batch_id == batch.batch_id))
        webhook.batch_id = None
        webhook.failures = 0
        webhook.due_time = answer.began + timedelta(seconds=services.settings.webhook_spacing)
        webhook.lease_time = webhook.worker = None


def failed(services: Services, batch: Batch, answer: Answer) -> None:
    """The batch has to be tried again, later each time (decisions: 9)."""
    with services.database.write() as transaction:
        webhook = _still_ours(transaction, batch)
        if webhook is None:
            return
        _log_attempt(transaction, batch, answer, "failed")
        first_time = and_(Event.batch_id == batch.batch_id, Event.first_failed_time.is_(None))
        _run(transaction, update(Event).where(first_time).values(first_failed_time=now()))
        webhook.failures += 1
        spaced = answer.began + timedelta(seconds=services.settings.webhook_spacing)
        webhook.due_time = max(spaced, seconds_from_now(retry_delay(webhook.failures)))
        webhook.lease_time = webhook.worker = None
    logger.warning("webhook %s: try %s failed: %s", batch.webhook_id, webhook.failures, _outcome(answer))


def gone(services: Services, batch: Batch) -> None:
    """The receiver wants nothing any more: status 410 deletes the webhook (specification: Events, Delivery, 4)."""
    with services.database.write() as transaction:
        webhook = _still_ours(transaction, batch)
        if webhook is None:
            return
        transaction.delete(webhook)
    WEBHOOK_TRIES.labels("gone").inc()
    logger.warning("webhook %s: deleted, its receiver answered 410", batch.webhook_id)


def release(services: Services, batch: Batch) -> None:
    """Gives the webhook back as if nothing had been tried, for a process that has to stop."""
    with services.database.write() as transaction:
        webhook = _still_ours(transaction, batch)
        if webhook is not None:
            webhook.lease_time = webhook.worker = None


def retry_delay(failures: int) -> float:
    """Seconds before the next try: 10 after the first failure, doubling, up to a fifth more, an hour at most.

    The jitter keeps the webhooks of a receiver that was down from all coming back at once.
    """
    doubled = FIRST_DELAY * 2.0 ** min(failures - 1, 9)
    return min(doubled * _chance.uniform(1.0, 1.2), LONGEST_DELAY)


def _is_due(moment: datetime) -> ColumnElement[bool]:
    """Due, in nobody's hands, and with events."""
    free = or_(Webhook.lease_time.is_(None), Webhook.lease_time <= moment)
    return and_(Webhook.due_time <= moment, free, _oldest_events(Webhook.id, 1).scalar_subquery().is_not(None))


def _oldest_events(webhook_id: Any, limit: int) -> Select[int]:
    """Ids of the first events of a webhook.

    A range of one value, in the order of the index on both columns: with an equality PostgreSQL may read the whole
    table in the order of its primary key instead, since one webhook with a backlog makes it expect a hit at every row.
    """
    of_webhook = select(Event.id).where(Event.webhook_id.between(webhook_id, webhook_id))
    return of_webhook.order_by(Event.webhook_id, Event.id).limit(limit)


def _lock_due(transaction: Transaction) -> Webhook | None:
    """The lock is the weaker one of an update that changes no key: inserts of events, which hold a key share of the
    webhook until they are committed, neither wait for it nor hide the webhook from us."""
    statement = select(Webhook).where(_is_due(now())).order_by(Webhook.due_time, Webhook.id).limit(1)
    return transaction.scalars(statement.with_for_update(key_share=True, skip_locked=True, of=Webhook)).first()


def _drop_expired(transaction: Transaction, webhook: Webhook, limit: datetime) -> int:
    """Drops the events of the batch whose first failed try was that long ago; counts them."""
    expired = and_(Event.batch_id == webhook.batch_id, Event.first_failed_time <= limit)
    dropped = _run(transaction, delete(Event).where(expired)) if webhook.batch_id else 0
    webhook.dropped_events += dropped
    return dropped


def _fix_batch(transaction: Transaction, webhook: Webhook) -> list[str]:
    """The payloads of the batch: of the one that failed, else of a new one of the oldest events."""
    if webhook.batch_id:
        payloads = _payloads(transaction, webhook.batch_id)
        if payloads:
            return payloads
    webhook.batch_id = str(uuid.uuid4())
    oldest = _oldest_events(webhook.id, MOST_EVENTS)
    _run(transaction, update(Event).where(Event.id.in_(oldest)).values(batch_id=webhook.batch_id))
    return _payloads(transaction, webhook.batch_id)


def _payloads(transaction: Transaction, batch_id: str) -> list[str]:
    return list(transaction.scalars(select(Event.payload).where(Event.batch_id == batch_id).order_by(Event.id)))


def _lease(
    transaction: Transaction, webhook: Webhook, payloads: list[str], began: datetime, settings: Settings
) -> Batch:
    """Takes the lease. The due time moves at once, so that the spacing holds even if this worker dies."""
    webhook.worker = f"{present(presence_folder(settings))}:{uuid.uuid4().hex}"
    webhook.lease_time = began + timedelta(seconds=LEASE)
    webhook.due_time = began + timedelta(seconds=settings.webhook_spacing)
    signers = select(WebhookSecret.key_id, WebhookSecret.secret).where(WebhookSecret.webhook_id == webhook.id)
    return Batch(
        webhook_id=webhook.id,
        account_id=webhook.account_id,
        url=webhook.url,
        claim=webhook.worker,
        batch_id=webhook.batch_id or "",
        payloads=payloads,
        stored_secrets=[(key_id, stored) for key_id, stored in transaction.execute(signers.order_by(WebhookSecret.id))],
    )


def _still_ours(transaction: Transaction, batch: Batch) -> Webhook | None:
    statement = select(Webhook).where(Webhook.id == batch.webhook_id, Webhook.worker == batch.claim)
    webhook = transaction.scalars(statement.with_for_update(key_share=True)).first()
    if webhook is None:
        logger.warning("webhook %s: deleted, or its lease ran out, while a request was under way", batch.webhook_id)
    return webhook


def _log_attempt(transaction: Transaction, batch: Batch, answer: Answer, outcome: str) -> None:
    row: dict[str, Any] = {
        "account_id": batch.account_id,
        "webhook_id": batch.webhook_id,
        "batch_id": batch.batch_id,
        "time": answer.began,
        "events": len(batch.payloads),
        "status": answer.status,
        "outcome": outcome,
        "detail": answer.detail or None,
        "milliseconds": round((answer.ended - answer.began) / timedelta(milliseconds=1)),
    }
    insert_rows(transaction, WebhookAttempt, [row])
    transaction.after_commit(WEBHOOK_TRIES.labels(outcome).inc)


def _outcome(answer: Answer) -> str:
    return answer.detail if answer.status is None else f"status {answer.status}"


def _run(transaction: Transaction, statement: Executable) -> int:
    """Runs a statement on many rows, past the session; returns how many rows it changed."""
    result: CursorResult[Any] = transaction.connection().execute(statement)
    return result.rowcount
