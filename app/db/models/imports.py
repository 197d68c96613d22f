"""Imports of contacts that take many transactions, and how far each has come."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import AccountId, Base, BigInt, Identity, Timestamps
from app.db.types import BigId


class ContactImport(Timestamps, Base):
    """The import of a file into a list. `rows_done` is written in the transaction of the rows that it counts, so that
    an interrupted import goes on exactly behind them (docs/cli.md#interrupted-imports)."""

    __tablename__ = "contact_imports"
    __table_args__ = (
        UniqueConstraint("list_id", "digest"),
        Index("ix_contact_imports_time", "last_modified_time"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    list_id: Mapped[int] = mapped_column(BigId, ForeignKey("lists.id", ondelete="CASCADE"))
    digest: Mapped[str]
    """Keyed, of the contents of the file."""
    options: Mapped[str]
    """What else its rows depend on: how it was read."""
    rows_done: Mapped[BigInt]
    """Rows of the file, from its first, that are done."""
    created: Mapped[BigInt]
    updated: Mapped[BigInt]
    left_out: Mapped[BigInt] = mapped_column(server_default="0")
    """Forgotten people who had unsubscribed or were blocked."""
    end_time: Mapped[datetime | None]
