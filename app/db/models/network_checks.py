"""Checks that wait for name servers (docs/console.md#checks)."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import AUTOINCREMENT, AccountId, Base, Identity
from app.db.types import BigId


class NetworkCheck(Base):
    """A check that somebody has asked for, until its result is stored with what it is about."""

    __tablename__ = "network_checks"
    __table_args__ = (UniqueConstraint("account_id", "kind", "object_id"), AUTOINCREMENT)

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    kind: Mapped[str]
    """`domain` or `webhook`."""
    object_id: Mapped[int] = mapped_column(BigId)
    """That of the domain or webhook. No foreign key: the check of one that was deleted finds nothing."""
    asked_by: Mapped[str]
    """As the actor of the audit log."""
    creation_time: Mapped[datetime]
    lease_time: Mapped[datetime | None]
    """Until when the process that has begun it may take; another one begins it again then."""
