"""Bulk actions: what somebody asked to be done to all messages or blocked addresses that match a query
(docs/console-messages.md#bulk-actions)."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import AUTOINCREMENT, IMPERSONAL, AccountId, Base, BigInt, Identity, Impersonal, partial_index
from app.db.types import Json


class BulkAction(Base):
    """An action on many messages, which waits, so that it can be undone, and then runs in slices.

    Where it has come to is written in the transaction of the slice: each message is acted upon once, whoever dies, and
    however many processes run slices.
    """

    __tablename__ = "bulk_actions"
    __table_args__ = (
        Index("ix_bulk_actions_page", "account_id", "creation_time", "id"),
        partial_index("ix_bulk_actions_due", "due_time", "id", where="end_time IS NULL"),
        partial_index("ix_bulk_actions_open", "account_id", where="end_time IS NULL"),
        Index("ix_bulk_actions_end_time", "end_time"),
        AUTOINCREMENT,
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    action: Mapped[Impersonal]
    """`retry`, `release`, `drop_as_sent`, `drop_as_failed` or `unblock`; the last is about addresses, not messages."""
    query: Mapped[Impersonal]
    """The query of the console's page of messages, held messages or suppressions, as its URL has it. It names no
    address."""
    asked_by: Mapped[Impersonal]
    """Who asked for the action, as the audit log names its actors."""
    state: Mapped[Impersonal]
    """`waiting`, `running`, `done`, `cancelled` or `failed`."""
    creation_time: Mapped[datetime]
    due_time: Mapped[datetime]
    """When its first slice may run, and later when its last slice did: whose is the oldest has its turn next."""
    end_time: Mapped[datetime | None]
    messages: Mapped[BigInt]
    """How many matched when it was asked for."""
    newest_time: Mapped[datetime]
    newest_id: Mapped[BigInt]
    """The newest message of the account when it was asked for; later ones are left alone."""
    last_time: Mapped[datetime | None]
    last_id: Mapped[BigInt | None]
    """The message up to which it has come, in the order in which they were accepted."""
    done: Mapped[BigInt] = mapped_column(default=0)
    """How many messages it has acted upon."""
    left_out: Mapped[dict[str, int]] = mapped_column(Json, default=dict, info=IMPERSONAL)
    """Why it has not acted upon others -> how many."""
