"""The outbox: events are rows of the transaction that makes the change, so neither exists without the other.

No worker is woken from here. Batches of a webhook are seconds apart (docs/webhooks.md#batches), so the scheduler's look
for due webhooks, twice a second, is soon enough; and what only writes rows needs neither Redis nor the process's
services.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import select

from app.db.bulk import insert_rows
from app.db.database import Transaction
from app.db.models import Event, Webhook
from app.events.payloads import Payload


def record(transaction: Transaction, account_id: int, payloads: Sequence[Payload]) -> None:
    """Writes the events, in their order, for every webhook that the account has now (docs/webhooks.md)."""
    record_many(transaction, {account_id: payloads})


def record_many(transaction: Transaction, payloads_by_account: Mapping[int, Iterable[Payload]]) -> None:
    """The same for the events of several accounts; one select and one insert in all.

    The payloads of an account without webhooks are not read.
    """
    accounts = [account_id for account_id, payloads in payloads_by_account.items() if payloads]
    if not accounts:
        return
    rows: list[dict[str, Any]] = []
    for account_id, webhook_ids in _webhooks(transaction, accounts).items():
        texts = [orjson.dumps(payload).decode() for payload in payloads_by_account[account_id]]
        for webhook_id in webhook_ids:
            rows += [{"account_id": account_id, "webhook_id": webhook_id, "payload": text} for text in texts]
    insert_rows(transaction, Event, rows)


def _webhooks(transaction: Transaction, account_ids: Sequence[int]) -> dict[int, list[int]]:
    """Ids of the webhooks of each account that has any.

    FOR KEY SHARE is the lock that a foreign key takes anyway. Taken here it keeps a webhook from being deleted between
    this select and the insert, which would fail the whole change; dispatch does not wait for it.
    """
    statement = (
        select(Webhook.account_id, Webhook.id)
        .where(Webhook.account_id.in_(account_ids))
        .order_by(Webhook.id)
        .with_for_update(read=True, key_share=True)
    )
    webhooks: dict[int, list[int]] = {}
    for account_id, webhook_id in transaction.execute(statement):
        webhooks.setdefault(account_id, []).append(webhook_id)
    return webhooks
