"""The log of requests to webhooks: one row for each, without its body (docs/webhooks.md#deliveries)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import bindparam, insert

from app.db.database import Transaction
from app.db.models import WebhookAttempt, table_of
from app.db.prepared import PreparedStatement
from app.db.storable import storable_text
from app.events.endpoint import PostResult
from app.infrastructure.metrics import WEBHOOK_TRIES

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
