"""Transactional groups, the reports of sends; counters that change with the rows they count, in slots
(app/db/counters.py).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Index,
    SmallInteger,
    UniqueConstraint,
    cast,
    func,
    literal_column,
    select,
)
from sqlalchemy.orm import InstrumentedAttribute, Mapped, column_property, mapped_column

from app.db.models.base import AccountId, Base, BigInt, Impersonal
from app.db.types import BigId, UtcDateTime


def total(counter: InstrumentedAttribute[int], *conditions: ColumnElement[bool]) -> ColumnElement[int]:
    """A counter as the sum of the slots that meet the conditions, for a select, a filter or a property of a model."""
    summed = select(cast(func.coalesce(func.sum(counter), literal_column("0")), BigInteger)).where(*conditions)
    return summed.correlate_except(counter.class_).scalar_subquery()


def latest(counter: InstrumentedAttribute[Any], *conditions: ColumnElement[bool]) -> ColumnElement[Any]:
    """A time of a counter as the latest of the slots that meet the conditions."""
    return select(func.max(counter)).where(*conditions).correlate_except(counter.class_).scalar_subquery()


class ContactCount(Base):
    """A slot of the number of a list's contacts. No foreign key to the list: a count never waits for its lock."""

    __tablename__ = "contact_counts"
    __table_args__: Any = ()

    list_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    slot: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    account_id: Mapped[AccountId]
    contacts: Mapped[BigInt] = mapped_column(default=0)


class _OutcomeCounters:
    """The counters that a group has, and an hour of it."""

    sent: Mapped[BigInt] = mapped_column(default=0)
    failed_contacts: Mapped[BigInt] = mapped_column(default=0)
    bounced: Mapped[BigInt] = mapped_column(default=0)
    delivered: Mapped[BigInt] = mapped_column(default=0)
    opened: Mapped[BigInt] = mapped_column(default=0)
    clicked: Mapped[BigInt] = mapped_column(default=0)
    unsubscribed: Mapped[BigInt] = mapped_column(default=0)


class GroupCount(_OutcomeCounters, Base):
    """A slot of a group's counters. No foreign key to the group: a count never keeps an outcome from being written."""

    __tablename__ = "group_counts"
    __table_args__: Any = ()

    group_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    slot: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    account_id: Mapped[AccountId]
    last_sent_time: Mapped[datetime | None]


class HourlyCount(_OutcomeCounters, Base):
    """A slot of a group's counters for what happened in one hour, kept for RETAIN_LOGS
    (docs/cli.md#counts-over-time)."""

    __tablename__ = "hourly_counts"
    __table_args__ = (Index("ix_hourly_counts_account", "account_id", "hour"), Index("ix_hourly_counts_hour", "hour"))

    group_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    hour: Mapped[datetime] = mapped_column(primary_key=True)
    slot: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    account_id: Mapped[AccountId]


class TagCount(_OutcomeCounters, Base):
    """A slot of the counters of a tag for what happened in one hour, kept as long as those of groups
    (docs/tags.md#counts). A send without tags has none."""

    __tablename__ = "tag_counts"
    __table_args__ = (Index("ix_tag_counts_hour", "hour"),)

    account_id: Mapped[AccountId] = mapped_column(primary_key=True, autoincrement=False)
    tag: Mapped[Impersonal] = mapped_column(primary_key=True)
    hour: Mapped[datetime] = mapped_column(primary_key=True)
    slot: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)


class AutomationStepCount(Base):
    """A slot of how many runs have passed a step of an automation with one result, of all its versions. No foreign key
    to the step: a count never keeps a run from going on."""

    __tablename__ = "automation_step_counts"
    __table_args__: Any = ()

    step_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    result: Mapped[Impersonal] = mapped_column(primary_key=True)
    slot: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    account_id: Mapped[AccountId]
    passed: Mapped[BigInt] = mapped_column(default=0)


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
    type: Mapped[Impersonal]
    name: Mapped[Impersonal]
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
