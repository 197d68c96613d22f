"""Who is signed in to the console (docs/console.md#sessions)."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import AUTOINCREMENT, Base, Confidential, Identity, Impersonal
from app.db.types import BigId


class ConsoleLink(Base):
    """A link that signs in once. It is deleted when it is used; only the SHA-256 of its token is stored."""

    __tablename__ = "console_links"
    __table_args__ = (Index("ix_console_links_end_time", "end_time"), AUTOINCREMENT)

    id: Mapped[Identity]
    token_hash: Mapped[Confidential] = mapped_column(unique=True)
    account_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("accounts.id", ondelete="CASCADE"))
    """Null: it signs in an operator, who sees all accounts."""
    made_by: Mapped[Impersonal]
    """The operating system's user who made it, as in the audit log."""
    end_time: Mapped[datetime]


class ConsoleSession(Base):
    """A browser that is signed in, by a key or by a link. Only the SHA-256 of its token is stored."""

    __tablename__ = "console_sessions"
    __table_args__ = (
        Index("ix_console_sessions_end_time", "end_time"),
        Index("ix_console_sessions_key_id", "key_id"),
        AUTOINCREMENT,
    )

    id: Mapped[Identity]
    token_hash: Mapped[Confidential] = mapped_column(unique=True)
    account_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("accounts.id", ondelete="CASCADE"))
    """Null: an operator's, who sees all accounts."""
    key_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("api_keys.id", ondelete="CASCADE"))
    """The key that signed in; null: a link did."""
    name: Mapped[Impersonal]
    """The name of the key, or of the user who made the link."""
    creation_time: Mapped[datetime]
    end_time: Mapped[datetime]
