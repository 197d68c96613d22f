"""Lists and their fields."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint, false
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import IMPERSONAL, AccountId, Base, BigInt, Identity, Impersonal, Timestamps, partial_index
from app.db.types import BigId, Json


class List(Timestamps, Base):
    """A list of contacts (docs/endpoints.md#lists)."""

    __tablename__ = "lists"
    __table_args__ = (
        Index("ix_lists_page", "account_id", "creation_time", "id"),
        partial_index("ix_lists_copy_of", "account_id", "copy_of", unique=True, where="copy_of IS NOT NULL"),
        partial_index("ix_lists_offered", "account_id", "creation_time", "id", where="offered"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    name: Mapped[Impersonal | None]
    system: Mapped[bool] = mapped_column(default=False)
    allow_duplicates: Mapped[bool] = mapped_column(default=False)
    stop_words: Mapped[list[Any]] = mapped_column(Json, default=list, info=IMPERSONAL)
    has_automations: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether automations listen to its triggers: without one, a change of contacts costs nothing more."""
    offered: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether recipients can choose it on their preferences page (docs/preferences.md)."""
    offered_name: Mapped[Impersonal | None]
    """How that page calls it; null for its name."""
    offered_description: Mapped[Impersonal | None]
    """A sentence for that page."""
    copy_of: Mapped[BigInt | None]
    """In a test account: the list of the account that it is a copy of (docs/testing.md#copies)."""


class ListField(Base):
    """One field of a list; `key` is the name by the key rule (docs/contacts.md#list-fields)."""

    __tablename__ = "list_fields"
    __table_args__ = (
        UniqueConstraint("list_id", "key"),
        Index("ix_list_fields_order", "list_id", "position"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    list_id: Mapped[int] = mapped_column(BigId, ForeignKey("lists.id", ondelete="CASCADE"))
    position: Mapped[int]
    name: Mapped[Impersonal]
    key: Mapped[Impersonal]
    type: Mapped[Impersonal]
    options: Mapped[list[Any]] = mapped_column(Json, default=list, info=IMPERSONAL)
