"""The database side of dispatch: which webhook is due, what its next batch is, and what became of it.

A batch is fixed when it is claimed (`fixed`). It keeps id and events until it is accepted or expires, so that a
receiver can tell a repetition by the `jti`, even one by another worker after the first has died. The lease keeps a
second request from starting meanwhile; whoever has lost it leaves the webhook alone.
"""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, delete, insert, or_, select
from sqlalchemy.orm import Session

from app.clock import now, seconds_from_now
from app.db.database import Transaction
from app.db.models import Webhook, WebhookAttempt, table_of
from app.db.prepared import Prepared
from app.events.batch_contents import drop_expired, fix_batch, oldest_events, take_off
from app.events.endpoint import PostResult
from app.events.lease_recovery import LEASE, presence_folder
from app.events.webhook_lease import Held, hold, hold_ours
from app.infrastructure.liveness import registered_name
from app.infrastructure.metrics import WEBHOOK_TRIES
from app.services import Services
from app.settings import Settings
from app.storable import storable_words

FIRST_DELAY = 10.0
LONGEST_DELAY = 3600.0

LOG_ATTEMPT = Prepared(
    insert(table_of(WebhookAttempt))
    .inline()  # nobody asks for the new id
    .values(
        {
            name: bindparam(f"new_{name}", type_=column.type)
            for name, column in table_of(WebhookAttempt).c.items()
            if name != "id"
        }
    )
)

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
    stored_secrets: Sequence[tuple[str, str]]


def has_due(session: Session) -> bool:
    """Whether any webhook may be sent events now."""
    return session.scalars(select(Webhook.id).where(_is_due(now())).limit(1)).first() is not None


def claim(services: Services) -> Batch | None:
    """The next batch of the webhook that has been due for longest, under a lease; None when there is none."""
    with services.database.write() as transaction:
        webhook_id = _lock_due(transaction)
        webhook = hold(transaction, webhook_id) if webhook_id is not None else None
        if webhook is None:
            return None
        webhook.worker = None  # whoever had it has it no more
        batch = _next_batch(transaction, webhook, services.settings)
        webhook.store(transaction)
        return batch


def delivered(services: Services, batch: Batch, answer: PostResult, *, go_on: bool = False) -> Batch | None:
    """The receiver has accepted the batch.

    With `go_on` the webhook's next batch is claimed in the same transaction, where the spacing allows it to leave now:
    one commit for each batch instead of two, which are what a backlog without spacing waits for.
    """
    with services.database.write() as transaction:
        webhook = _still_ours(transaction, batch)
        if webhook is None:
            return None
        _log_attempt(transaction, batch, answer, "delivered")
        take_off(transaction, webhook)
        webhook.failures = 0
        webhook.due_time = answer.began + timedelta(seconds=services.settings.webhook_spacing)
        following = None
        if go_on and webhook.due_time <= now():
            following = _next_batch(transaction, webhook, services.settings)
        else:
            webhook.let_go()
        webhook.store(transaction)
        return following


def failed(services: Services, batch: Batch, answer: PostResult) -> None:
    """The batch has to be tried again, later each time (docs/webhooks.md#responses)."""
    with services.database.write() as transaction:
        webhook = _still_ours(transaction, batch)
        if webhook is None:
            return
        _log_attempt(transaction, batch, answer, "failed")
        webhook.first_failed_time = webhook.first_failed_time or now()
        webhook.failures += 1
        spaced = answer.began + timedelta(seconds=services.settings.webhook_spacing)
        webhook.due_time = max(spaced, seconds_from_now(retry_delay(webhook.failures)))
        webhook.let_go()
        webhook.store(transaction)
    logger.warning("webhook %s: try %s failed: %s", batch.webhook_id, webhook.failures, _outcome(answer))


def gone(services: Services, batch: Batch) -> None:
    """The receiver wants nothing any more: status 410 deletes the webhook (docs/webhooks.md#responses)."""
    with services.database.write() as transaction:
        webhook = _still_ours(transaction, batch)
        if webhook is None:
            return
        transaction.execute(delete(Webhook).where(Webhook.id == webhook.id))
    WEBHOOK_TRIES.labels("gone").inc()
    logger.warning("webhook %s: deleted, its receiver answered 410", batch.webhook_id)


def release(services: Services, batch: Batch) -> None:
    """Gives the webhook back as if nothing had been tried, for a process that has to stop."""
    with services.database.write() as transaction:
        webhook = _still_ours(transaction, batch)
        if webhook is not None:
            webhook.let_go()
            webhook.store(transaction)


def retry_delay(failures: int) -> float:
    """Seconds before the next try: 10 after the first failure, doubling, up to a fifth more, an hour at most.

    The jitter keeps the webhooks of a receiver that was down from all coming back at once.
    """
    doubled = FIRST_DELAY * 2.0 ** min(failures - 1, 9)
    return min(doubled * _chance.uniform(1.0, 1.2), LONGEST_DELAY)


def _is_due(moment: datetime) -> ColumnElement[bool]:
    """Due, in nobody's hands, and with events."""
    free = or_(Webhook.lease_time.is_(None), Webhook.lease_time <= moment)
    return and_(Webhook.due_time <= moment, free, oldest_events(Webhook.id, 1).scalar_subquery().is_not(None))


def _lock_due(transaction: Transaction) -> int | None:
    """Which webhook it is, under the lock that `hold` takes. What another process holds is passed over."""
    statement = select(Webhook.id).where(_is_due(now())).order_by(Webhook.due_time, Webhook.id).limit(1)
    return transaction.scalars(statement.with_for_update(key_share=True, skip_locked=True, of=Webhook)).first()


def _next_batch(transaction: Transaction, webhook: Held, settings: Settings) -> Batch | None:
    """What the webhook is sent next, under a lease; without events it is nobody's."""
    began = now()
    dropped = drop_expired(transaction, webhook, began - timedelta(seconds=settings.webhook_expiry))
    if dropped:
        told = "webhook %s: dropped %s events that failed for too long"
        transaction.after_commit(partial(logger.warning, told, webhook.id, dropped))
    payloads = fix_batch(transaction, webhook)
    if payloads:
        return _lease(webhook, payloads, began, settings)
    webhook.batch_id = webhook.batch_events = None
    webhook.let_go()
    return None


def _lease(webhook: Held, payloads: list[str], began: datetime, settings: Settings) -> Batch:
    """Takes the lease, or goes on with it under the same claim. The due time moves at once, so that the spacing holds
    even if this worker dies."""
    webhook.worker = webhook.worker or f"{registered_name(presence_folder(settings))}:{uuid.uuid4().hex}"
    webhook.lease_time = began + timedelta(seconds=LEASE)
    webhook.due_time = began + timedelta(seconds=settings.webhook_spacing)
    return Batch(
        webhook_id=webhook.id,
        account_id=webhook.account_id,
        url=webhook.url,
        claim=webhook.worker,
        batch_id=webhook.batch_id or "",
        payloads=payloads,
        stored_secrets=webhook.stored_secrets,
    )


def _still_ours(transaction: Transaction, batch: Batch) -> Held | None:
    webhook = hold_ours(transaction, batch.webhook_id, batch.claim)
    if webhook is None:
        logger.warning("webhook %s: deleted, or its lease ran out, while a request was under way", batch.webhook_id)
    elif webhook.batch_id != batch.batch_id:
        # The outcome was written before, and the database's answer lost: the next batch has not been sent.
        webhook.let_go()
        webhook.due_time = now()
        webhook.store(transaction)
        return None
    return webhook


def _log_attempt(transaction: Transaction, batch: Batch, answer: PostResult, outcome: str) -> None:
    values: dict[str, Any] = {
        "account_id": batch.account_id,
        "webhook_id": batch.webhook_id,
        "batch_id": batch.batch_id,
        "time": answer.began,
        "events": len(batch.payloads),
        "status": answer.status,
        "outcome": outcome,
        "detail": storable_words(answer.detail) or None,
        "milliseconds": round((answer.ended - answer.began) / timedelta(milliseconds=1)),
    }
    LOG_ATTEMPT.run(transaction, **{f"new_{name}": value for name, value in values.items()})
    transaction.after_commit(WEBHOOK_TRIES.labels(outcome).inc)


def _outcome(answer: PostResult) -> str:
    return answer.detail if answer.status is None else f"status {answer.status}"
