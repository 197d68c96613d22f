"""Stored messages: the templates that a send may refer to."""

from __future__ import annotations

from sqlalchemy import Index, text
from sqlalchemy.orm import Mapped

from app.db.models.base import AccountId, Base, BigInt, Identity, Timestamps


class Message(Timestamps, Base):
    """A message and its content (docs/endpoints.md#messages)."""

    __tablename__ = "messages"
    __table_args__ = (
        Index("ix_messages_page", "account_id", "creation_time", "id"),
        Index(
            "ix_messages_copy_of",
            *("account_id", "copy_of"),
            unique=True,
            postgresql_where=text("copy_of IS NOT NULL"),
            sqlite_where=text("copy_of IS NOT NULL"),
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    name: Mapped[str]
    type: Mapped[str]
    subject: Mapped[str | None]
    from_name: Mapped[str | None]
    from_address: Mapped[str | None]
    reply_to: Mapped[str | None]
    thumbnail_url: Mapped[str | None]
    body_html: Mapped[str | None]
    body_text: Mapped[str | None]
    copy_of: Mapped[BigInt | None]
    """In a test account: the message of the account that it is a copy of (docs/testing.md#copies)."""
