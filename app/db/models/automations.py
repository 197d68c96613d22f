"""Automation triggers that have fired."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index
from sqlalchemy.orm import Mapped

from app.db.models.base import AccountId, Base, BigInt, Identity


class TriggerFiring(Base):
    """A contact was created or updated; each kind of automation has its own name for the trigger."""

    __tablename__ = "trigger_firings"
    __table_args__ = (
        Index("ix_trigger_firings_account", "account_id", "id"),
        Index("ix_trigger_firings_time", "time"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    list_id: Mapped[BigInt]
    contact_id: Mapped[BigInt]
    action: Mapped[str]
    """`created` or `updated`."""
    time: Mapped[datetime]
