"""Stored responses of requests with an Idempotency-Key."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import AccountId, Base, Identity, Impersonal, personal


class IdempotencyRecord(Base):
    """A key in use: `status` is null while the first request is in progress (docs/requests.md#idempotency)."""

    __tablename__ = "idempotency_records"
    __table_args__ = (
        UniqueConstraint("account_id", "key"),
        Index("ix_idempotency_records_time", "creation_time"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    key: Mapped[str] = mapped_column(info=personal("stored_answers"))
    fingerprint: Mapped[Impersonal]
    """A hash of method, path with query, and body (app/http/idempotency.py)."""
    creation_time: Mapped[datetime]
    holder: Mapped[Impersonal | None]
    """The first request while it is in progress (app/http/idempotency.py)."""
    lease_time: Mapped[datetime | None]
    """When it counts as ended for other machines."""
    status: Mapped[int | None]
    body: Mapped[str | None] = mapped_column(info=personal("stored_answers"))
