"""Transactional groups: the reports of sends."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index, UniqueConstraint, func
from sqlalchemy.orm import Mapped, column_property, mapped_column

from app.db.models.base import AccountId, Base
from app.db.models.counts import GroupCount, latest, total
from app.db.types import BigId, UtcDateTime

RESULT_COUNTERS = ("failed_contacts", "bounced", "delivered", "opened", "clicked", "unsubscribed")
"""Columns that count what follows from the sends of a group."""


class Group(Base):
    """A report that collects the results of sends (docs/endpoints.md#transactional-groups). Counters count
    recipients.

    A counter is read as the sum of the group's own row and of its slots (`GroupCount`). The columns `own_…` have the
    recipients of the first send, and what was counted before there were slots.
    """

    __tablename__ = "transactional_groups"
    __table_args__ = (
        UniqueConstraint("account_id", "name"),
        Index("ix_transactional_groups_page", "account_id", "creation_time", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    account_id: Mapped[AccountId]
    type: Mapped[str]
    name: Mapped[str]
    creation_time: Mapped[datetime]
    own_last_sent_time: Mapped[datetime] = mapped_column("last_sent_time", UtcDateTime)
    own_sent: Mapped[int] = mapped_column("sent", BigId, default=0)
    own_failed_contacts: Mapped[int] = mapped_column("failed_contacts", BigId, default=0)
    own_bounced: Mapped[int] = mapped_column("bounced", BigId, default=0)
    own_delivered: Mapped[int] = mapped_column("delivered", BigId, default=0)
    own_opened: Mapped[int] = mapped_column("opened", BigId, default=0)
    own_clicked: Mapped[int] = mapped_column("clicked", BigId, default=0)
    own_unsubscribed: Mapped[int] = mapped_column("unsubscribed", BigId, default=0)

    last_sent_time: Mapped[datetime] = column_property(
        func.coalesce(latest(GroupCount.last_sent_time, GroupCount.group_id == id), own_last_sent_time)
    )
    sent: Mapped[int] = column_property(own_sent + total(GroupCount.sent, GroupCount.group_id == id))
    failed_contacts: Mapped[int] = column_property(
        own_failed_contacts + total(GroupCount.failed_contacts, GroupCount.group_id == id)
    )
    bounced: Mapped[int] = column_property(own_bounced + total(GroupCount.bounced, GroupCount.group_id == id))
    delivered: Mapped[int] = column_property(own_delivered + total(GroupCount.delivered, GroupCount.group_id == id))
    opened: Mapped[int] = column_property(own_opened + total(GroupCount.opened, GroupCount.group_id == id))
    clicked: Mapped[int] = column_property(own_clicked + total(GroupCount.clicked, GroupCount.group_id == id))
    unsubscribed: Mapped[int] = column_property(
        own_unsubscribed + total(GroupCount.unsubscribed, GroupCount.group_id == id)
    )
