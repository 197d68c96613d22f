"""The send queue: what is still to be sent, separate from the history (docs/decisions/015-send-queue-apart.md)."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import (
    ENCRYPTED,
    AccountId,
    Base,
    BigInt,
    Confidential,
    Identity,
    Impersonal,
    partial_index,
    personal,
)
from app.db.types import BigId

STORAGE = {
    "fillfactor": 50,
    "autovacuum_vacuum_scale_factor": 0,
    "autovacuum_vacuum_threshold": 1000,
    "autovacuum_vacuum_insert_threshold": -1,
    "autovacuum_vacuum_cost_delay": 0,
    "autovacuum_analyze_scale_factor": 0,
    "autovacuum_analyze_threshold": 5000,
    "vacuum_truncate": "false",
}
"""PostgreSQL's settings of the table. Each entry is written, claimed and deleted, so half of a page is kept for the
claimed version, and the table is vacuumed by the number of dead rows, not by their share. Its file is not cut to size
after a backlog, because that takes a lock which no claim can pass."""


IS_READY = "state = 'queued' AND attempts >= 0"
"""The condition of the index on `ready_time`. The second part is always true; by it no statement but the one that has
it, too, can be answered by this index, which PostgreSQL took for the shorter way to what is due after it had counted
the table while it was empty."""


class QueueEntry(Base):
    """The entry of a recipient in the send queue, from its acceptance until it is settled.

    `state` is scheduled, queued, sending, uncertain, held or paused (docs/delivery.md#recipient-states). A scheduled
    entry is queued at `due_time`, a queued one is due then, and an uncertain one is decided then; one that is being
    sent belongs to `worker` until `lease_time`. One that is held came with a restored backup, and waits for an
    operator; one that is paused waits for the end of `pause_id`.
    """

    __tablename__ = "send_queue"
    __table_args__ = (
        partial_index(
            "ix_send_queue_due", "account_id", "priority", "due_time", "recipient_id", where="state = 'queued'"
        ),
        partial_index("ix_send_queue_ready", "ready_time", where=IS_READY),
        partial_index("ix_send_queue_scheduled", "account_id", "due_time", "recipient_id", where="state = 'scheduled'"),
        partial_index("ix_send_queue_scheduled_time", "due_time", where="state = 'scheduled'"),
        partial_index("ix_send_queue_lease", "lease_time", where="state = 'sending'"),
        partial_index("ix_send_queue_uncertain", "due_time", where="state = 'uncertain'"),
        partial_index("ix_send_queue_held", "recipient_id", where="state = 'held'"),
        partial_index("ix_send_queue_paused", "pause_id", "recipient_id", where="state = 'paused'"),
        {"postgresql_with": STORAGE},
    )

    recipient_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    """No foreign key: checking it would take longer than writing the entry. The cleaning deletes entries whose
    recipient was deleted by hand."""
    account_id: Mapped[AccountId]
    type: Mapped[Impersonal | None]
    """`email` or `sms`, as its recipient; null: the version before has written the entry."""
    priority: Mapped[Impersonal]
    """`high` or `normal`, as its send."""
    state: Mapped[Impersonal]
    due_time: Mapped[datetime]
    ready_time: Mapped[datetime]
    """When a worker may find it: the due time, or the time when it was put into the queue, whichever is later. A
    released entry keeps its due time and thereby its place, and counts as new for workers that have already looked
    there."""
    lease_time: Mapped[datetime | None]
    worker: Mapped[Impersonal | None]
    attempts: Mapped[int] = mapped_column(default=0)
    rendered_bytes: Mapped[int | None]
    """Size of subject and bodies after rendering, once there was an attempt."""
    held_state: Mapped[Impersonal | None]
    """The state that a held entry had in the backup."""
    pause_id: Mapped[BigInt | None]
    """The pause that has put the entry aside. No foreign key: checking it would take longer than writing the entry."""
    secret_values: Mapped[str | None] = mapped_column(info={**personal("recipients"), ENCRYPTED: True})
    """The recipient's secret values, if it has any: null in its row stands for each."""


# Pauses: of which accounts, lists and domains nothing is sent until somebody goes on (docs/waiting.md#pauses).


class SendPause(Base):
    """A pause, from its begin until all messages that it has put aside are in the queue again."""

    __tablename__ = "send_pauses"
    __table_args__ = (
        Index("ix_send_pauses_account", "account_id", "id"),
        partial_index("ix_send_pauses_list_id", "list_id", where="list_id IS NOT NULL"),
        partial_index("ix_send_pauses_resumed", "id", where="resumed_time IS NOT NULL"),
        partial_index(
            "ix_send_pauses_everywhere", "domain", unique=True, where="account_id IS NULL AND resumed_time IS NULL"
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("accounts.id", ondelete="CASCADE"))
    """Null: a domain of the whole installation."""
    kind: Mapped[Impersonal]
    """`account`, `list` or `domain`."""
    list_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("lists.id", ondelete="SET NULL"))
    domain: Mapped[Impersonal | None]
    """The domain of recipients, in lower-case ASCII."""
    reason: Mapped[Confidential | None]
    paused_by: Mapped[Impersonal]
    """The name of the key, or of the user, as in the audit log."""
    creation_time: Mapped[datetime]
    resumed_time: Mapped[datetime | None]
    """When somebody went on: what it has put aside is let go, and then the row is deleted."""
