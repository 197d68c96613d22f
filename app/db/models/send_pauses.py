"""Pauses: of which accounts, lists and domains nothing is sent until somebody goes on (docs/delivery.md#pauses)."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, Identity
from app.db.types import BigId


class SendPause(Base):
    """A pause, from its begin until all messages that it has put aside are in the queue again."""

    __tablename__ = "send_pauses"
    __table_args__ = (
        Index("ix_send_pauses_account", "account_id", "id"),
        Index(
            "ix_send_pauses_list_id",
            "list_id",
            postgresql_where=text("list_id IS NOT NULL"),
            sqlite_where=text("list_id IS NOT NULL"),
        ),
        Index(
            "ix_send_pauses_resumed",
            "id",
            postgresql_where=text("resumed_time IS NOT NULL"),
            sqlite_where=text("resumed_time IS NOT NULL"),
        ),
        Index(
            "ix_send_pauses_everywhere",
            "domain",
            unique=True,
            postgresql_where=text("account_id IS NULL AND resumed_time IS NULL"),
            sqlite_where=text("account_id IS NULL AND resumed_time IS NULL"),
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("accounts.id", ondelete="CASCADE"))
    """Null: a domain of the whole installation."""
    kind: Mapped[str]
    """`account`, `list` or `domain`."""
    list_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("lists.id", ondelete="SET NULL"))
    domain: Mapped[str | None]
    """The domain of recipients, in lower-case ASCII."""
    reason: Mapped[str | None]
    paused_by: Mapped[str]
    """The name of the key, or of the user, as in the audit log."""
    creation_time: Mapped[datetime]
    resumed_time: Mapped[datetime | None]
    """When somebody went on: what it has put aside is let go, and then the row is deleted."""
