"""Stored messages: the templates that a send may refer to, and their versions."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import (
    IMPERSONAL,
    AccountId,
    Base,
    BigInt,
    Confidential,
    Identity,
    Impersonal,
    Timestamps,
    partial_index,
)
from app.db.types import BigId, Json


class Message(Timestamps, Base):
    """A message and its content (docs/endpoints.md#messages)."""

    __tablename__ = "messages"
    __table_args__ = (
        Index("ix_messages_page", "account_id", "creation_time", "id"),
        partial_index("ix_messages_copy_of", "account_id", "copy_of", unique=True, where="copy_of IS NOT NULL"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    name: Mapped[Impersonal]
    type: Mapped[Impersonal]
    subject: Mapped[Confidential | None]
    from_name: Mapped[Confidential | None]
    from_address: Mapped[Confidential | None]
    reply_to: Mapped[Confidential | None]
    thumbnail_url: Mapped[Confidential | None]
    body_html: Mapped[Confidential | None]
    body_text: Mapped[Confidential | None]
    copy_of: Mapped[BigInt | None]
    """In a test account: the message of the account that it is a copy of (docs/testing.md#copies)."""


class MessageVersion(Base):
    """What a message said after a change, and who made that (docs/contacts.md#versions). Its type never changes.

    The bodies come last: SQLite finds the other columns without reading them.
    """

    __tablename__ = "message_versions"
    __table_args__ = (UniqueConstraint("message_id", "number"), {"sqlite_autoincrement": True})

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    message_id: Mapped[int] = mapped_column(BigId, ForeignKey("messages.id", ondelete="CASCADE"))
    number: Mapped[int]
    time: Mapped[datetime]
    actor_kind: Mapped[Impersonal | None]
    """The kind of the actor, as in the audit log; null if the content is from before versions were kept."""
    actor: Mapped[Impersonal | None]
    via: Mapped[Impersonal | None]
    changed: Mapped[list[str]] = mapped_column(Json, info=IMPERSONAL)
    """The names of the fields in which it differs from the version before."""
    name: Mapped[Impersonal]
    subject: Mapped[Confidential | None]
    from_name: Mapped[Confidential | None]
    from_address: Mapped[Confidential | None]
    reply_to: Mapped[Confidential | None]
    thumbnail_url: Mapped[Confidential | None]
    body_html: Mapped[Confidential | None]
    body_text: Mapped[Confidential | None]
