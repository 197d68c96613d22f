"""Webhooks, their secrets, the outbox of events and the log of attempts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, SmallInteger, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import (
    IMPERSONAL,
    AccountId,
    Base,
    BigInt,
    Confidential,
    Encrypted,
    Identity,
    Impersonal,
    personal,
)
from app.db.types import BigId, Json

UNCHECKED_BAR = "being checked"
"""What bars a webhook until a worker has checked its host (docs/webhooks.md#ssrf-guard)."""


class Webhook(Base):
    """A URL that receives events, and the state of their dispatch (docs/webhooks.md).

    `batch_id` is that of a batch in flight or whose last attempt failed. Its events are those after `position` up
    to `batch_end`, and no event can appear among them (docs/decisions/018-events-in-rotating-tables.md). So the batch
    keeps its id and its events until it is accepted or expires, also when a worker dies, and the events themselves are
    written once.
    """

    __tablename__ = "webhooks"
    __table_args__ = (UniqueConstraint("account_id", "url"), {"sqlite_autoincrement": True})

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    url: Mapped[Confidential]
    creation_time: Mapped[datetime]
    due_time: Mapped[datetime]
    """No request starts before this."""
    lease_time: Mapped[datetime | None]
    """Set while a request is in flight: one at a time per webhook."""
    worker: Mapped[Impersonal | None]
    failures: Mapped[int] = mapped_column(default=0)
    """Failed attempts since the last success."""
    batch_id: Mapped[Impersonal | None]
    position: Mapped[BigInt] = mapped_column(default=0, server_default="0")
    """Id of the last event that is done: accepted, or dropped."""
    batch_end: Mapped[int | None] = mapped_column(BigId)
    complete_to: Mapped[BigInt] = mapped_column(default=0, server_default="0")
    """No event with an id up to here can appear any more."""
    first_failed_time: Mapped[datetime | None]
    """When the batch failed first: it expires some time after this."""
    dropped_events: Mapped[int] = mapped_column(default=0)
    failing_since: Mapped[datetime | None]
    """The first failed attempt since the last success."""
    outage_reported_time: Mapped[datetime | None]
    """When the account's other webhooks were told of it."""
    chosen_events: Mapped[list[Any] | None] = mapped_column(Json, info=IMPERSONAL)
    """Names of the events that it receives; null: all (app/events/outbox.py)."""
    chosen_lists: Mapped[list[Any] | None] = mapped_column(Json, info=IMPERSONAL)
    """Ids of the lists whose events it receives; null: those of all, and those without a list."""
    held_to: Mapped[int | None] = mapped_column(BigId)
    """Set while the webhook is held, because it had events waiting in a backup that was restored: the last of them."""
    barred: Mapped[Impersonal | None]
    """Why nothing is sent to it: `UNCHECKED_BAR` until the addresses of its host were looked up, and then why it was
    refused; null for one that was accepted."""


class WebhookSecret(Base):
    """A signing secret, encrypted; every secret of a webhook signs until it is removed."""

    __tablename__ = "webhook_secrets"
    __table_args__ = (UniqueConstraint("webhook_id", "key_id"), {"sqlite_autoincrement": True})

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    webhook_id: Mapped[int] = mapped_column(BigId, ForeignKey("webhooks.id", ondelete="CASCADE"))
    key_id: Mapped[Impersonal]
    secret: Mapped[Encrypted]
    creation_time: Mapped[datetime]


class Event(Base):
    """One event for one webhook, written in the transaction of the change it reports, and never changed. `id` is the
    order.

    On PostgreSQL a table partitioned by `slot`, with no other index than this one: an event is found by its webhook.
    """

    __tablename__ = "events"
    __table_args__ = (
        Index("ix_events_webhook", "webhook_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    slot: Mapped[int] = mapped_column(SmallInteger, default=0)
    """The table that it is in (docs/decisions/018-events-in-rotating-tables.md)."""
    account_id: Mapped[AccountId]
    webhook_id: Mapped[int] = mapped_column(BigId)
    """No foreign key: the events of a deleted webhook go with their table."""
    payload: Mapped[str] = mapped_column(info=personal("events"))
    """The event's JSON, ready to be joined into a body."""


class EventRotation(Base):
    """The one row determines to which of the tables, slot 0 or 1, events are written."""

    __tablename__ = "event_rotation"
    __table_args__ = ()

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    slot: Mapped[int] = mapped_column(SmallInteger)
    since_id: Mapped[BigInt]
    """The last id that was drawn before."""
    since_time: Mapped[datetime]

    @property
    def other_slot(self) -> int:
        """The slot with the older events."""
        return 1 - self.slot


class WebhookAttempt(Base):
    """One request to a webhook, kept for RETAIN_LOGS."""

    __tablename__ = "webhook_attempts"
    __table_args__ = (
        Index("ix_webhook_attempts_webhook", "webhook_id", "id"),
        Index("ix_webhook_attempts_time", "time"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    webhook_id: Mapped[int] = mapped_column(BigId, ForeignKey("webhooks.id", ondelete="CASCADE"))
    batch_id: Mapped[Impersonal]
    time: Mapped[datetime]
    events: Mapped[int]
    status: Mapped[int | None]
    """Null where there was no response."""
    outcome: Mapped[Impersonal]
    """`delivered`, `failed` or `gone`."""
    detail: Mapped[str | None] = mapped_column(info=personal("webhook_requests"))
    milliseconds: Mapped[int]
    after_event: Mapped[BigInt | None]
    last_event: Mapped[BigInt | None]
    """The request had the webhook's events with ids after `after_event` up to this one, as long as events are kept."""
    answer: Mapped[str | None] = mapped_column(info=personal("webhook_requests"))
    """The first 4 KiB of the answer's body."""
