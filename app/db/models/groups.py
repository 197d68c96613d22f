"""Transactional groups: the reports of sends."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import AccountId, Base, BigInt, Identity

RESULT_COUNTERS = ("failed_contacts", "bounced", "delivered", "opened", "clicked", "unsubscribed")
"""Columns that count what follows from the sends of a group."""


class Group(Base):
    """A report that collects the results of sends (docs/endpoints.md#transactional-groups). Counters count
    recipients."""

    __tablename__ = "transactional_groups"
    __table_args__ = (
        UniqueConstraint("account_id", "name"),
        Index("ix_transactional_groups_page", "account_id", "creation_time", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    type: Mapped[str]
    name: Mapped[str]
    creation_time: Mapped[datetime]
    last_sent_time: Mapped[datetime]
    sent: Mapped[BigInt] = mapped_column(default=0)
    failed_contacts: Mapped[BigInt] = mapped_column(default=0)
    bounced: Mapped[BigInt] = mapped_column(default=0)
    delivered: Mapped[BigInt] = mapped_column(default=0)
    opened: Mapped[BigInt] = mapped_column(default=0)
    clicked: Mapped[BigInt] = mapped_column(default=0)
    unsubscribed: Mapped[BigInt] = mapped_column(default=0)
