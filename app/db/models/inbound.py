"""What came in from outside, and destinations that are given time."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index, LargeBinary, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import AccountId, Base, Identity


class InboundRecord(Base):
    """A report, receipt or reply that has been dealt with: the same one again changes nothing."""

    __tablename__ = "inbound_records"
    __table_args__ = (
        UniqueConstraint("account_id", "fingerprint"),
        Index("ix_inbound_records_time", "time"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    fingerprint: Mapped[str]
    kind: Mapped[str]
    time: Mapped[datetime]


class ReplyPart(Base):
    """One part of a long text that somebody sent to a number, as the gateway handed it in."""

    __tablename__ = "reply_parts"
    __table_args__ = (
        UniqueConstraint(
            *("account_id", "number", "mobile", "reference", "total", "position"), name="uq_reply_parts_position"
        ),
        Index("ix_reply_parts_time", "time"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    number: Mapped[str]
    mobile: Mapped[str]
    reference: Mapped[int]
    """The number that the phone gave to the whole text."""
    total: Mapped[int]
    position: Mapped[int]
    """From 1."""
    coding: Mapped[int]
    body: Mapped[bytes] = mapped_column(LargeBinary)
    """As it came: a character may begin in one part and end in the next."""
    time: Mapped[datetime]
    """When it came; once it is told, when that was."""
    told: Mapped[bool]


class DestinationPause(Base):
    """A domain whose mail servers put off what an account sends from a domain of its own: nothing of it goes there
    before `until_time`."""

    __tablename__ = "destination_pauses"
    __table_args__ = (
        UniqueConstraint("account_id", "sender_domain", "domain"),
        Index("ix_destination_pauses_until_time", "until_time"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    sender_domain: Mapped[str]
    domain: Mapped[str]
    failures: Mapped[int]
    """Deferrals of the whole domain since it last took a message."""
    until_time: Mapped[datetime]
