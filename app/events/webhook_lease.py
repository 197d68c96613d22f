"""A webhook in the hands of a worker: its row, locked and read once, and written back once when all is decided.

A backlog is one batch after the other, and each waits for what is done here. The statements are kept
(app/db/prepared.py): through the ORM they took a third of the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, String, bindparam, select, update

from app.db.database import Transaction
from app.db.models import Webhook, WebhookSecret, table_of
from app.db.prepared import Prepared

STATE = (
    "due_time",
    "lease_time",
    "worker",
    "failures",
    "batch_id",
    "batch_events",
    "first_failed_time",
    "dropped_events",
)
"""The columns of `Webhook` that dispatch changes."""
FIXED = ("id", "account_id", "url")


@dataclass(slots=True)
class Held:
    """The webhook as its row will be. `stored_secrets` are pairs of key id and secret as stored."""

    id: int
    account_id: int
    url: str
    due_time: datetime
    lease_time: datetime | None
    worker: str | None
    failures: int
    batch_id: str | None
    batch_events: list[int] | None
    first_failed_time: datetime | None
    dropped_events: int
    stored_secrets: Sequence[tuple[str, str]]

    def store(self, transaction: Transaction) -> None:
        """Writes the state."""
        STORE.run(transaction, held_id=self.id, **{f"new_{name}": getattr(self, name) for name in STATE})

    def let_go(self) -> None:
        """It is nobody's from the end of the transaction on."""
        self.lease_time = self.worker = None


def hold(transaction: Transaction, webhook_id: int) -> Held | None:
    """The webhook, whoever has it; None when it is gone."""
    return _held(BY_ID.rows(transaction, webhook_id=webhook_id))


def hold_ours(transaction: Transaction, webhook_id: int, claim: str) -> Held | None:
    """The webhook, if it is still the claim's."""
    return _held(BY_CLAIM.rows(transaction, webhook_id=webhook_id, claim=claim))


def _held(rows: Sequence[Any]) -> Held | None:
    """A row for each secret, or one without."""
    if not rows:
        return None
    secrets = [(row.key_id, row.secret) for row in rows if row.key_id is not None]
    known: dict[str, Any] = dict(zip((*FIXED, *STATE), rows[0], strict=False))
    return Held(**known, stored_secrets=secrets)


def _webhook() -> Select[Any]:
    """With its secrets, oldest first. The lock is the weaker one of an update that changes no key: inserts of events,
    which hold a key share of the webhook until they are committed, do not wait for it."""
    columns = (getattr(Webhook, name) for name in (*FIXED, *STATE))
    return (
        select(*columns, WebhookSecret.key_id, WebhookSecret.secret)
        .outerjoin(WebhookSecret, WebhookSecret.webhook_id == Webhook.id)
        .where(Webhook.id == bindparam("webhook_id"))
        .order_by(WebhookSecret.id)
        .with_for_update(key_share=True, of=Webhook)
    )


BY_ID = Prepared(_webhook())
BY_CLAIM = Prepared(_webhook().where(Webhook.worker == bindparam("claim", type_=String)))
STORE = Prepared(
    update(table_of(Webhook))
    .where(Webhook.id == bindparam("held_id"))
    .values({name: bindparam(f"new_{name}", type_=getattr(Webhook, name).type) for name in STATE})
)
