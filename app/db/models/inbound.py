"""Processed inbound reports, parts of long replies, and back-offs per domain."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index, LargeBinary, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import AccountId, Base, Identity


class InboundRecord(Base):
    """A processed report, receipt or reply: receiving it again changes nothing."""

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
    """One part of a long reply to a number, as the gateway delivered it."""

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
    """The phone's reference number of the whole text."""
    total: Mapped[int]
    position: Mapped[int]
    """From 1."""
    coding: Mapped[int]
    body: Mapped[bytes] = mapped_column(LargeBinary)
    """Undecoded: a character may begin in one part and end in the next."""
    time: Mapped[datetime]
    """Time of receipt; once the reply is recorded, the time of that."""
    recorded: Mapped[bool]
    """Whether the reply was recorded; the part stays for a while to recognize duplicates."""


class DomainBackoff(Base):
    """Domain back-off of a route whose mail was deferred repeatedly: no attempt starts before `until_time`."""

    __tablename__ = "domain_backoffs"
    __table_args__ = (
        UniqueConstraint("account_id", "sender_domain", "domain"),
        Index("ix_domain_backoffs_until_time", "until_time"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    sender_domain: Mapped[str]
    domain: Mapped[str]
    failures: Mapped[int]
    """Deferrals of the whole domain since it last accepted a message."""
    until_time: Mapped[datetime]
