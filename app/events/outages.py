"""Webhooks that have failed for a day, which the account's other webhooks are told of (docs/webhooks.md#outages)."""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial

from sqlalchemy import select

from app.clock import now
from app.db.database import Transaction
from app.db.models import Webhook
from app.events.choice import FAILING
from app.events.outbox import record_for_webhooks
from app.events.payloads import failing_event
from app.events.webhook_lease import LockedWebhook
from app.infrastructure.metrics import WEBHOOK_OUTAGES

OUTAGE = timedelta(days=1)

logger = logging.getLogger(__name__)


def report_outage(transaction: Transaction, webhook: LockedWebhook) -> None:
    """Notes a failed attempt; once they have lasted for a day, one event tells the account's other webhooks that chose
    it. A success ends the outage."""
    moment = now()
    webhook.failing_since = webhook.failing_since or moment
    if webhook.outage_reported_time is not None or moment - webhook.failing_since < OUTAGE:
        return
    webhook.outage_reported_time = moment
    others = select(Webhook.id, Webhook.chosen_events).where(
        Webhook.account_id == webhook.account_id, Webhook.id != webhook.id, Webhook.chosen_events.is_not(None)
    )
    event = failing_event(webhook_id=webhook.id, url=webhook.url, since=webhook.failing_since, moment=moment)
    told = {id_: [event] for id_, chosen in transaction.execute(others) if FAILING in (chosen or ())}
    if told:
        record_for_webhooks(transaction, webhook.account_id, told)
    transaction.after_commit(WEBHOOK_OUTAGES.inc)
    message = "webhook %s: all attempts have failed since %s"
    transaction.after_commit(partial(logger.error, message, webhook.id, webhook.failing_since))
