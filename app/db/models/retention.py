"""How far the purging of each account has come (docs/decisions/025-purging-by-sends.md)."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import AccountId, Base, BigInt
from app.db.types import BigId


class PurgePosition(Base):
    """The account's sends up to this one have been looked at in a stage of purging: `content` or `recipients`."""

    __tablename__ = "purge_positions"
    __table_args__ = ()

    account_id: Mapped[int] = mapped_column(
        BigId, ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    stage: Mapped[str] = mapped_column(primary_key=True)
    send_id: Mapped[BigInt] = mapped_column(default=0)
    """No foreign key: the send may be gone."""


class DelayedPurge(Base):
    """A send before the position that was not ready to be purged."""

    __tablename__ = "delayed_purges"
    __table_args__ = (Index("ix_delayed_purges_since", "account_id", "stage", "since"),)

    send_id: Mapped[int] = mapped_column(
        BigId, ForeignKey("sends.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    stage: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[AccountId]
    since: Mapped[datetime]
    """Its last outcome, or when it was found to have none: the retention counts from then at least."""
