"""Database side of webhook dispatch: claims the next batch of a due webhook, records the result of its delivery, and
logs each request without its body (docs/webhooks.md#deliveries).

The contents of a batch are set when it is claimed (`batch_contents`). It keeps id and events until it is accepted or
expires, so that a receiver can recognise a repetition by the id, even one by another worker after the first has
died. The lease keeps a second request from starting meanwhile; a worker that has lost the lease changes nothing.
"""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, bindparam, delete, insert, not_, or_, select, update
from sqlalchemy.orm import Session

from app.audit.record import Act, record
from app.audit.values import host_of
from app.clock import now, seconds_from_now
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Webhook, WebhookAttempt, table_of
from app.db.prepared import PreparedStatement
from app.db.types import storable_text
from app.events.batch_contents import (
    LockedWebhook,
    batch_payloads,
    drop_expired,
    lock_leased,
    lock_webhook,
    oldest_waiting,
    pass_batch,
)
from app.events.endpoint import PostResult
from app.events.outbox import FAILING_EVENT, failing_event, record_for_webhooks
from app.infrastructure.liveness import dead_processes, registered_name
from app.infrastructure.metrics import LEASES_RECOVERED, WEBHOOK_OUTAGES, WEBHOOK_TRIES
from app.services import Services
from app.settings import Settings

LOG_ATTEMPT = PreparedStatement(
    insert(table_of(WebhookAttempt))
    .inline()  # without RETURNING: the new id is not needed
    .values(
        {
            name: bindparam(f"new_{name}", type_=column.type)
            for name, column in table_of(WebhookAttempt).c.items()
            if name != "id"
        }
    )
)


@dataclass(frozen=True, slots=True)
class Batch:
    """A claimed batch of events of one webhook. `lease_token` proves the lease; the secrets are as stored."""

    webhook_id: int
    account_id: int
    url: str
    lease_token: str
    batch_id: str
    after_event: int
    last_event: int
    payloads: list[str]
    stored_secrets: Sequence[tuple[str, str]]


def log_attempt(transaction: Transaction, batch: Batch, result: PostResult, outcome: str) -> None:
    """Writes what became of a request for the batch."""
    values: dict[str, Any] = {
        "account_id": batch.account_id,
        "webhook_id": batch.webhook_id,
        "batch_id": batch.batch_id,
        "time": result.began,
        "events": len(batch.payloads),
        "status": result.status,
        "outcome": outcome,
        "detail": storable_text(result.detail) or None,
        "milliseconds": round((result.ended - result.began) / timedelta(milliseconds=1)),
        "after_event": batch.after_event,
        "last_event": batch.last_event,
        "answer": result.answer.replace("\x00", "\ufffd") or None,
    }
    LOG_ATTEMPT.run(transaction, **{f"new_{name}": value for name, value in values.items()})
    transaction.after_commit(WEBHOOK_TRIES.labels(outcome).inc)


logger = logging.getLogger(__name__)


# Recovery of webhook leases whose process has died.
#
# A lease token begins with the name of its process. A process of this machine that has died is detected at once
# (app/infrastructure/liveness.py); one of another machine when its lease ends.

LEASE_SECONDS = 90.0
"""Longer than any request can take."""


def dispatcher_folder(settings: Settings) -> Path:
    """The folder in which the dispatching processes of this machine register."""
    return settings.data_dir / "dispatchers"


def recover_leases(services: Services) -> None:
    """Ends the leases of processes of this machine that have died; those of other machines run out."""
    with dead_processes(dispatcher_folder(services.settings)) as names:
        if not names:
            return
        leased_by_dead = or_(*(Webhook.worker.startswith(f"{name}:", autoescape=True) for name in names))
        with services.database.write() as transaction:
            released = _release(transaction, leased_by_dead)
    if released:
        LEASES_RECOVERED.labels("webhooks").inc(released)
        logger.warning("recovered the webhook leases of a dead process", extra={"webhooks": released})


def release_unknown_leases(services: Services, known_tokens: Collection[str]) -> None:
    """Ends leases of this process that it does not know of: the claim was committed, the database's answer lost."""
    own_lease = Webhook.worker.startswith(f"{registered_name(dispatcher_folder(services.settings))}:", autoescape=True)
    with services.database.write() as transaction:
        released = _release(transaction, own_lease, Webhook.worker.not_in(known_tokens))
    if released:
        logger.warning(
            "released webhook leases that were claimed while the database failed", extra={"webhooks": released}
        )


def _release(transaction: Transaction, *conditions: ColumnElement[bool]) -> int:
    statement = update(Webhook).where(*conditions).values(lease_time=None, worker=None)
    return transaction.connection().execute(statement).rowcount


# Webhooks that have failed for a day, which the account's other webhooks are told of (docs/webhooks.md#outages).

OUTAGE_PERIOD = timedelta(days=1)


def report_outage(transaction: Transaction, webhook: LockedWebhook) -> None:
    """Notes a failed attempt; once they have lasted for a day, one event tells the account's other webhooks that chose
    it. A success ends the outage."""
    moment = now()
    webhook.failing_since = webhook.failing_since or moment
    if webhook.outage_reported_time is not None or moment - webhook.failing_since < OUTAGE_PERIOD:
        return
    webhook.outage_reported_time = moment
    others = select(Webhook.id, Webhook.chosen_events).where(
        Webhook.account_id == webhook.account_id, Webhook.id != webhook.id, Webhook.chosen_events.is_not(None)
    )
    event = failing_event(webhook_id=webhook.id, url=webhook.url, since=webhook.failing_since, moment=moment)
    told = {id_: [event] for id_, chosen in transaction.execute(others) if FAILING_EVENT in (chosen or ())}
    if told:
        record_for_webhooks(transaction, webhook.account_id, told)
    transaction.after_commit(WEBHOOK_OUTAGES.inc)
    message = "webhook %s: all attempts have failed since %s"
    transaction.after_commit(partial(logger.error, message, webhook.id, webhook.failing_since))


FIRST_DELAY = 10.0
MAX_DELAY = 3600.0
MAX_CLOCK_DIFFERENCE = 60.0
"""Seconds by which a due time may lie behind the longest delay, because another machine has written it."""
LOOK_INTERVAL = 0.5
"""Seconds until a webhook whose events cannot be passed yet is due again: the time between two looks of the
scheduler."""

_random = secrets.SystemRandom()


class Exclusions(NamedTuple):
    """Ids of webhooks, and of accounts, of which nothing is claimed, although it may be due."""

    webhooks: Collection[int] = ()
    accounts: Collection[int] = ()


NO_EXCLUSIONS = Exclusions()


def has_due(session: Session, settings: Settings, exclusions: Exclusions = NO_EXCLUSIONS) -> bool:
    """Whether any webhook may be sent events now."""
    return session.scalars(select(Webhook.id).where(_is_due(now(), settings, exclusions)).limit(1)).first() is not None


def claim(services: Services, exclusions: Exclusions = NO_EXCLUSIONS) -> Batch | None:
    """The next batch of the webhook that has been due for longest, under a lease; None when nothing is due.

    A webhook whose events cannot be passed yet, because an earlier transaction is open, is checked again a moment
    later: other due webhooks must not wait behind it.
    """
    while True:
        with services.database.write() as transaction:
            webhook_id = _lock_due(transaction, services.settings, exclusions)
            webhook = lock_webhook(transaction, webhook_id) if webhook_id is not None else None
            if webhook is None:
                return None
            webhook.worker = None  # ends an earlier lease, which has run out
            batch = _next_batch(transaction, webhook, services.settings)
            if batch is None:
                webhook.due_time = seconds_from_now(LOOK_INTERVAL)
            webhook.save(transaction)
        if batch is not None:
            return batch


def record_delivered(services: Services, batch: Batch, result: PostResult, *, claim_next: bool = False) -> Batch | None:
    """Passes the batch, which the receiver has accepted.

    With `claim_next` the webhook's next batch is claimed in the same transaction, if the spacing allows it to be sent
    now: one commit per batch instead of two, which matters for a backlog without spacing.
    """
    with services.database.write() as transaction:
        webhook = _lock_if_leased(transaction, batch)
        if webhook is None:
            return None
        log_attempt(transaction, batch, result, "delivered")
        pass_batch(webhook)
        webhook.failures = 0
        webhook.failing_since = webhook.outage_reported_time = None
        webhook.due_time = result.began + timedelta(seconds=services.settings.webhook_spacing)
        next_batch = None
        if claim_next and webhook.due_time <= now():
            next_batch = _next_batch(transaction, webhook, services.settings)
        else:
            webhook.release_lease()
        webhook.save(transaction)
        return next_batch


def record_failed(services: Services, batch: Batch, result: PostResult) -> None:
    """Schedules the next attempt, after a longer delay each time (docs/webhooks.md#responses)."""
    with services.database.write() as transaction:
        webhook = _lock_if_leased(transaction, batch)
        if webhook is None:
            return
        log_attempt(transaction, batch, result, "failed")
        webhook.first_failed_time = webhook.first_failed_time or now()
        webhook.failures += 1
        report_outage(transaction, webhook)
        spaced = result.began + timedelta(seconds=services.settings.webhook_spacing)
        webhook.due_time = max(spaced, seconds_from_now(retry_delay(webhook.failures)))
        webhook.release_lease()
        webhook.save(transaction)
    logger.warning("webhook %s: attempt %s failed: %s", batch.webhook_id, webhook.failures, _reason(result))


def delete_gone(services: Services, batch: Batch) -> None:
    """Deletes the webhook, since its receiver has answered 410 Gone (docs/webhooks.md#responses)."""
    with services.database.write() as transaction:
        webhook = _lock_if_leased(transaction, batch)
        if webhook is None:
            return
        transaction.execute(delete(Webhook).where(Webhook.id == webhook.id))
        record(transaction, Act("webhook.deleted", webhook.account_id, webhook.id, host_of(webhook.url)))
    WEBHOOK_TRIES.labels("gone").inc()
    logger.warning("webhook %s: deleted, because its receiver answered 410", batch.webhook_id)


def release(services: Services, batch: Batch) -> None:
    """Ends the lease as if no attempt had been made, for a process that must stop."""
    with services.database.write() as transaction:
        webhook = _lock_if_leased(transaction, batch)
        if webhook is not None:
            webhook.release_lease()
            webhook.save(transaction)


def retry_delay(failures: int) -> float:
    """Seconds before the next attempt: 10 after the first failure, then doubled each time, an hour at most.

    A jitter of up to a fifth keeps the webhooks of a receiver that was down from all retrying at once.
    """
    doubled = FIRST_DELAY * 2.0 ** min(failures - 1, 9)
    return min(doubled * _random.uniform(1.0, 1.2), MAX_DELAY)


def _is_due(moment: datetime, settings: Settings, exclusions: Exclusions = NO_EXCLUSIONS) -> ColumnElement[bool]:
    """Due, not held, not barred, not leased, and with events. A due time further ahead than any delay was written while
    the clock was wrong: waiting for it would stop the webhook for as long as the clock was ahead."""
    furthest = moment + timedelta(seconds=max(MAX_DELAY, settings.webhook_spacing) + MAX_CLOCK_DIFFERENCE)
    due = or_(Webhook.due_time <= moment, Webhook.due_time > furthest)
    unleased = or_(Webhook.lease_time.is_(None), Webhook.lease_time <= moment)
    waiting = oldest_waiting(Webhook.id, Webhook.position, 1).scalar_subquery()
    conditions = [due, Webhook.held_to.is_(None), Webhook.barred.is_(None), unleased, waiting.is_not(None)]
    if exclusions.webhooks:
        conditions.append(not_(in_json(Webhook.id, exclusions.webhooks)))
    if exclusions.accounts:
        conditions.append(not_(in_json(Webhook.account_id, exclusions.accounts)))
    return and_(*conditions)


def _lock_due(transaction: Transaction, settings: Settings, exclusions: Exclusions) -> int | None:
    """Id of the first due webhook, under the row lock that `lock_webhook` takes. Rows locked by others are skipped."""
    due = select(Webhook.id).where(_is_due(now(), settings, exclusions))
    statement = due.order_by(Webhook.due_time, Webhook.id).limit(1)
    return transaction.scalars(statement.with_for_update(key_share=True, skip_locked=True, of=Webhook)).first()


def _next_batch(transaction: Transaction, webhook: LockedWebhook, settings: Settings) -> Batch | None:
    """The next batch under a lease; without events the lease ends."""
    began = now()
    dropped = drop_expired(transaction, webhook, began - timedelta(seconds=settings.webhook_expiry))
    if dropped:
        message = "webhook %s: dropped %s events that failed for too long"
        transaction.after_commit(partial(logger.warning, message, webhook.id, dropped))
    payloads = batch_payloads(transaction, webhook)
    if payloads:
        return _lease(webhook, payloads, began, settings)
    webhook.batch_id = webhook.batch_end = None
    webhook.release_lease()
    return None


def _lease(webhook: LockedWebhook, payloads: list[str], began: datetime, settings: Settings) -> Batch:
    """Takes the lease, or extends it under the same token. The due time is set at once, so that the spacing is kept
    even if this worker dies."""
    webhook.worker = webhook.worker or f"{registered_name(dispatcher_folder(settings))}:{uuid.uuid4().hex}"
    webhook.lease_time = began + timedelta(seconds=LEASE_SECONDS)
    webhook.due_time = began + timedelta(seconds=settings.webhook_spacing)
    return Batch(
        webhook_id=webhook.id,
        account_id=webhook.account_id,
        url=webhook.url,
        lease_token=webhook.worker,
        batch_id=webhook.batch_id or "",
        after_event=webhook.position,
        last_event=webhook.batch_end or webhook.position,
        payloads=payloads,
        stored_secrets=webhook.stored_secrets,
    )


def _lock_if_leased(transaction: Transaction, batch: Batch) -> LockedWebhook | None:
    webhook = lock_leased(transaction, batch.webhook_id, batch.lease_token)
    if webhook is None:
        logger.warning("webhook %s: deleted, or its lease expired, during a request", batch.webhook_id)
    elif webhook.batch_id != batch.batch_id:
        # The result was committed before, but the database's answer was lost: the next batch has not been sent.
        webhook.release_lease()
        webhook.due_time = now()
        webhook.save(transaction)
        return None
    return webhook


def _reason(result: PostResult) -> str:
    return result.detail if result.status is None else f"status {result.status}"
