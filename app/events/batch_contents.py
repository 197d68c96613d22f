"""The events of a webhook's batch, from the claim until the batch is accepted or expires.

They are an interval of ids: after the webhook's position, which is where the last batch ended, up to the end of this
one. It ends no later than `complete_to`, so no transaction that commits later can add an event to it or leave one
behind (app/db/commit_order.py). Events are not written again: a batch that is accepted moves the position to its end.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Integer, ScalarSelect, Select, String, bindparam, func, select, update

from app.db import commit_order
from app.db.commit_order import MAX_ID
from app.db.database import Transaction
from app.db.models import Event, Webhook, WebhookSecret, table_of
from app.db.prepared import PreparedStatement
from app.db.types import BigId

# The lease of a webhook: its row is locked and read once per transaction, and written back once.
#
# A backlog is sent batch after batch, and each batch waits for these statements. They are prepared
# (app/db/prepared.py): through the ORM they took a third of the time of a whole batch.

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
        SAVE_STATE.run(transaction, locked_id=self.id, **{f"new_{name}": getattr(self, name) for name in STATE_COLUMNS})

    def release_lease(self) -> None:
        """Ends the lease with the transaction."""
        self.lease_time = self.worker = None


def lock_webhook(transaction: Transaction, webhook_id: int) -> LockedWebhook | None:
    """The webhook, whether leased or not; None when it was deleted."""
    return _from_rows(WEBHOOK_BY_ID.rows(transaction, webhook_id=webhook_id))


def lock_leased(transaction: Transaction, webhook_id: int, lease_token: str) -> LockedWebhook | None:
    """The webhook, if it is still leased under this token."""
    return _from_rows(WEBHOOK_BY_LEASE.rows(transaction, webhook_id=webhook_id, lease_token=lease_token))


def _from_rows(rows: Sequence[Any]) -> LockedWebhook | None:
    """The webhook in its rows: one per secret, or one without any."""
    if not rows:
        return None
    secrets = [(row.key_id, row.secret) for row in rows if row.key_id is not None]
    values: dict[str, Any] = dict(zip((*READ_ONLY_COLUMNS, *STATE_COLUMNS), rows[0], strict=False))
    return LockedWebhook(**values, stored_secrets=secrets)


def _webhook() -> Select[Any]:
    """The select of a webhook with its secrets, oldest first. The row lock is FOR NO KEY UPDATE: inserts of secrets,
    which hold a key share of the webhook until they are committed, do not wait for it."""
    columns = (getattr(Webhook, name) for name in (*READ_ONLY_COLUMNS, *STATE_COLUMNS))
    return (
        select(*columns, WebhookSecret.key_id, WebhookSecret.secret)
        .outerjoin(WebhookSecret, WebhookSecret.webhook_id == Webhook.id)
        .where(Webhook.id == bindparam("webhook_id"))
        .order_by(WebhookSecret.id)
        .with_for_update(key_share=True, of=Webhook)
    )


WEBHOOK_BY_ID = PreparedStatement(_webhook())
WEBHOOK_BY_LEASE = PreparedStatement(_webhook().where(Webhook.worker == bindparam("lease_token", type_=String)))
SAVE_STATE = PreparedStatement(
    update(table_of(Webhook))
    .where(Webhook.id == bindparam("locked_id"))
    .values({name: bindparam(f"new_{name}", type_=getattr(Webhook, name).type) for name in STATE_COLUMNS})
)


MAX_EVENTS = 1000
"""Maximum of one request (docs/webhooks.md#batches)."""


def oldest_waiting(webhook_id: Any, position: Any, limit: int, *columns: Any) -> Select[Any]:
    """Ids, or the given columns, of the oldest events of a webhook after its position.

    Always in the order of the index: if one webhook has nearly all events, PostgreSQL would otherwise read the table
    from its beginning, because it expects a hit at every row.
    """
    events = select(*(columns or (Event.id,))).where(Event.webhook_id == webhook_id, Event.id > position)
    return events.order_by(Event.webhook_id, Event.id).limit(limit)


def waiting_events() -> ScalarSelect[int]:
    """How many events a webhook has after its position: a subquery of a select of webhooks.

    The order, and a limit without effect, keep PostgreSQL on the index, as above.
    """
    waiting = oldest_waiting(Webhook.id, Webhook.position, MAX_ID).correlate(Webhook).subquery()
    return select(func.count()).select_from(waiting).scalar_subquery()


_WAITING = (
    Event.webhook_id == bindparam("webhook_id", type_=BigId),
    Event.id > bindparam("position", type_=BigId),
)
OLDEST_EVENTS = PreparedStatement(
    select(Event.id, Event.payload)
    .where(*_WAITING)
    .order_by(Event.webhook_id, Event.id)
    .limit(bindparam("most", type_=Integer))
)
"""The oldest waiting events of a webhook. The statement has no upper end, and a limit that PostgreSQL does not know:
planned once for all webhooks, it would otherwise assume that the interval is short, and read and sort all of it, for
every batch of a backlog."""
COUNT_EVENTS = PreparedStatement(
    select(func.count()).select_from(Event).where(*_WAITING, Event.id <= bindparam("end", type_=BigId))
)


def batch_payloads(transaction: Transaction, webhook: LockedWebhook) -> list[str]:
    """Payloads of the webhook's current batch; without one, of a new batch with its oldest events."""
    if webhook.batch_end is not None:
        rows = _events_up_to(transaction, webhook, webhook.batch_end)
        if rows:
            return [payload for _, payload in rows]
    oldest = _oldest_events(transaction, webhook)
    webhook.batch_id = str(uuid.uuid4())
    webhook.batch_end = oldest[-1][0] if oldest else None
    webhook.first_failed_time = None
    return [payload for _, payload in oldest]


def drop_expired(transaction: Transaction, webhook: LockedWebhook, limit: datetime) -> int:
    """Passes the events of the batch if its first failed attempt was before the limit; returns how many."""
    if webhook.first_failed_time is None or webhook.first_failed_time > limit or webhook.batch_end is None:
        return 0
    values = {"webhook_id": webhook.id, "position": webhook.position, "end": webhook.batch_end}
    ((dropped,),) = COUNT_EVENTS.tuples(transaction, **values)
    webhook.dropped_events += dropped
    pass_batch(webhook)
    return int(dropped)


def pass_batch(webhook: LockedWebhook) -> None:
    """Ends the batch; its events are done."""
    webhook.position = webhook.batch_end or webhook.position
    webhook.batch_id = webhook.batch_end = webhook.first_failed_time = None


def _oldest_events(transaction: Transaction, webhook: LockedWebhook) -> list[tuple[int, str]]:
    """The oldest events, at most those of one request, among which no other event can appear."""
    rows: list[tuple[int, str]] = []
    if webhook.position < webhook.complete_to:
        rows = _events_up_to(transaction, webhook, webhook.complete_to)
    if len(rows) < MAX_EVENTS:
        complete_to = commit_order.complete_to(transaction, webhook.account_id)
        if complete_to > webhook.complete_to:
            webhook.complete_to = complete_to
            rows = _events_up_to(transaction, webhook, complete_to)
    return rows


def _events_up_to(transaction: Transaction, webhook: LockedWebhook, end: int) -> list[tuple[int, str]]:
    values = {"webhook_id": webhook.id, "position": webhook.position, "most": MAX_EVENTS}
    rows = OLDEST_EVENTS.tuples(transaction, **values)
    while rows and rows[-1][0] > end:
        rows.pop()
    return rows
