"""The lease of a webhook: its row is locked and read once per transaction, and written back once.

A backlog is sent batch after batch, and each batch waits for these statements. They are prepared
(app/db/prepared.py): through the ORM they took a third of the time of a whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, String, bindparam, select, update

from app.db.database import Transaction
from app.db.models import Webhook, WebhookSecret, table_of
from app.db.prepared import PreparedStatement

STATE_COLUMNS = (
    "due_time",
    "lease_time",
    "worker",
    "failures",
    "batch_id",
    "position",
    "batch_end",
    "complete_to",
    "first_failed_time",
    "dropped_events",
    "failing_since",
    "outage_reported_time",
)
"""The columns of `Webhook` that dispatch changes."""
READ_ONLY_COLUMNS = ("id", "account_id", "url")


@dataclass(slots=True)
class LockedWebhook:
    """A webhook whose row this transaction has locked. `stored_secrets` are pairs of key id and encrypted secret."""

    id: int
    account_id: int
    url: str
    due_time: datetime
    lease_time: datetime | None
    worker: str | None
    failures: int
    batch_id: str | None
    position: int
    batch_end: int | None
    complete_to: int
    first_failed_time: datetime | None
    dropped_events: int
    failing_since: datetime | None
    outage_reported_time: datetime | None
    stored_secrets: Sequence[tuple[str, str]]

    def save(self, transaction: Transaction) -> None:
        """Writes the columns that dispatch changes."""
        SAVE.run(transaction, locked_id=self.id, **{f"new_{name}": getattr(self, name) for name in STATE_COLUMNS})

    def release_lease(self) -> None:
        """Ends the lease with the transaction."""
        self.lease_time = self.worker = None


def lock_webhook(transaction: Transaction, webhook_id: int) -> LockedWebhook | None:
    """The webhook, whether leased or not; None when it was deleted."""
    return _from_rows(BY_ID.rows(transaction, webhook_id=webhook_id))


def lock_leased(transaction: Transaction, webhook_id: int, lease_token: str) -> LockedWebhook | None:
    """The webhook, if it is still leased under this token."""
    return _from_rows(BY_LEASE.rows(transaction, webhook_id=webhook_id, lease_token=lease_token))


def _from_rows(rows: Sequence[Any]) -> LockedWebhook | None:
    """From one row per secret, or one row without any."""
    if not rows:
        return None
    secrets = [(row.key_id, row.secret) for row in rows if row.key_id is not None]
    values: dict[str, Any] = dict(zip((*READ_ONLY_COLUMNS, *STATE_COLUMNS), rows[0], strict=False))
    return LockedWebhook(**values, stored_secrets=secrets)


def _webhook() -> Select[Any]:
    """With its secrets, oldest first. The row lock is FOR NO KEY UPDATE: inserts of secrets, which hold a key share of
    the webhook until they are committed, do not wait for it."""
    columns = (getattr(Webhook, name) for name in (*READ_ONLY_COLUMNS, *STATE_COLUMNS))
    return (
        select(*columns, WebhookSecret.key_id, WebhookSecret.secret)
        .outerjoin(WebhookSecret, WebhookSecret.webhook_id == Webhook.id)
        .where(Webhook.id == bindparam("webhook_id"))
        .order_by(WebhookSecret.id)
        .with_for_update(key_share=True, of=Webhook)
    )


BY_ID = PreparedStatement(_webhook())
BY_LEASE = PreparedStatement(_webhook().where(Webhook.worker == bindparam("lease_token", type_=String)))
SAVE = PreparedStatement(
    update(table_of(Webhook))
    .where(Webhook.id == bindparam("locked_id"))
    .values({name: bindparam(f"new_{name}", type_=getattr(Webhook, name).type) for name in STATE_COLUMNS})
)
