"""Processed inbound reports, one-time tokens of relays, reports about domains, parts of long replies, and back-offs of
domains."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, LargeBinary, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import IMPERSONAL, AccountId, Base, BigInt, Identity, Impersonal, personal
from app.db.types import BigId, Json


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
    fingerprint: Mapped[Impersonal]
    kind: Mapped[Impersonal]
    time: Mapped[datetime]


class HookToken(Base):
    """A one-time token of a relay that does not sign the whole request: it is accepted with one event only."""

    __tablename__ = "hook_tokens"
    __table_args__ = (Index("ix_hook_tokens_time", "time"),)

    token: Mapped[Impersonal] = mapped_column(primary_key=True)
    account_id: Mapped[AccountId | None]
    """None if the event is about no mail of this service, or reports nothing."""
    fingerprint: Mapped[Impersonal]
    """The fingerprint of the event."""
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
    number: Mapped[Impersonal]
    mobile: Mapped[str] = mapped_column(info=personal("parts_of_replies", "mobile"))
    reference: Mapped[int]
    """The phone's reference number of the whole text."""
    total: Mapped[int]
    position: Mapped[int]
    """From 1."""
    coding: Mapped[int]
    body: Mapped[bytes] = mapped_column(LargeBinary, info=personal("parts_of_replies"))
    """Undecoded: a character may begin in one part and end in the next."""
    time: Mapped[datetime]
    """Time of receipt; once the reply is recorded, the time of that."""
    recorded: Mapped[bool]
    """Whether the reply was recorded; the part stays for a while to recognize duplicates."""


class DomainReport(Base):
    """A report that another mail server sent about a sending domain (docs/domain-reports.md)."""

    __tablename__ = "domain_reports"
    __table_args__ = (
        UniqueConstraint("domain_id", "kind", "reporter", "report_id"),
        Index("ix_domain_reports_time", "time"),
        Index("ix_domain_reports_domain_id_time", "domain_id", "time"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    domain_id: Mapped[int] = mapped_column(BigId, ForeignKey("domains.id", ondelete="CASCADE"))
    kind: Mapped[Impersonal]
    """`dmarc` or `tls`."""
    reporter: Mapped[Impersonal]
    report_id: Mapped[Impersonal]
    begin_time: Mapped[datetime]
    end_time: Mapped[datetime]
    time: Mapped[datetime]
    """When the report was received."""
    passed: Mapped[BigInt]
    failed: Mapped[BigInt]
    """Messages (DMARC) or sessions (TLS)."""
    content: Mapped[dict[str, Any]] = mapped_column(Json, info=IMPERSONAL)
    """The sources of mail, or the failures."""
    size: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    """Bytes that count against what the domain may get in a day."""


class DomainBackoff(Base):
    """A domain back-off: no attempt of an account from the one domain to the other starts before `until_time`."""

    __tablename__ = "domain_backoffs"
    __table_args__ = (
        UniqueConstraint("account_id", "sender_domain", "domain"),
        Index("ix_domain_backoffs_until_time", "until_time"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    sender_domain: Mapped[Impersonal]
    domain: Mapped[Impersonal]
    failures: Mapped[int]
    """Deferrals of the whole domain since it last accepted a message."""
    until_time: Mapped[datetime]
