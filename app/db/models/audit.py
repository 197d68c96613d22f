"""The audit log: what people and keys have done (docs/audit.md)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, SmallInteger, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import IMPERSONAL, Base, BigInt, Identity, Impersonal, partial_index
from app.db.types import BigId, Json


class AuditEntry(Base):
    """One act, written in the transaction of its change and never changed: a trigger of the database refuses that.

    It belongs to no account in the database's sense, so that it outlives the account that it is about.
    """

    __tablename__ = "audit_entries"
    __table_args__ = (
        Index("ix_audit_entries_page", "time", "id"),
        Index("ix_audit_entries_account", "account_id", "time", "id"),
        Index("ix_audit_entries_object", "object", "object_id", "time", "id"),
        *(Index(f"ix_audit_entries_{name}", name, "time", "id") for name in ("action", "actor", "request_id")),
        partial_index("ix_audit_entries_address", "address_digest", "time", "id", where="address_digest IS NOT NULL"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    time: Mapped[datetime]
    account_id: Mapped[BigInt | None]
    """Null: an act on the whole installation."""
    action: Mapped[Impersonal]
    """One of `app.audit.record.ACTIONS`."""
    object: Mapped[Impersonal]
    """The kind of thing that was acted on."""
    object_id: Mapped[Impersonal | None]
    object_name: Mapped[Impersonal | None]
    """The name that it had before the act."""
    address_digest: Mapped[Impersonal | None]
    """The keyed hash of the address that was acted on. No entry holds an address."""
    actor_kind: Mapped[Impersonal]
    """`key`, `command` or `service`."""
    actor: Mapped[Impersonal]
    """The name of the key, or of the operating system's user."""
    key_id: Mapped[int | None] = mapped_column(BigId)
    source: Mapped[Impersonal | None]
    """The client's address, or the host on which the command ran."""
    via: Mapped[Impersonal | None]
    """The command, or method and route of the request."""
    request_id: Mapped[Impersonal | None]
    """The id of the request; all entries of one command share an id, too."""
    changes: Mapped[list[Any]] = mapped_column(Json, info=IMPERSONAL)
    """The attributes that changed, each with `field`, and `old` and `new` where they may be shown."""
    counts: Mapped[dict[str, Any]] = mapped_column(Json, info=IMPERSONAL)
    """How many of what an act on many things was about."""


class AuditSeal(Base):
    """The seal of one entry, made soon after its commit: its hash depends on the entry and on the seal before
    (docs/audit.md#seals). When the entry is purged, its seal stays as a checkpoint, which takes in those beside it."""

    __tablename__ = "audit_seals"
    __table_args__ = (UniqueConstraint("entry_id"), UniqueConstraint("first_number"))

    number: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    """The place in the order of sealing, from 1 on without gaps."""
    first_number: Mapped[BigInt]
    """The number itself; of a checkpoint that of the first seal that it stands for."""
    entry_id: Mapped[BigInt]
    time: Mapped[datetime]
    """The time of the entry."""
    key_id: Mapped[int] = mapped_column(SmallInteger)
    """The row of `digest_key` whose key the hashes are made with."""
    digest: Mapped[Impersonal]
    """The keyed hash of the entry."""
    hash: Mapped[Impersonal]
    """The keyed hash of this seal and the one before."""
    purged_time: Mapped[datetime | None]
    """When the entry was purged; it makes this a checkpoint."""
    purged_mark: Mapped[Impersonal | None]
    """The keyed hash of a checkpoint, which shows that it was the retention that deleted the entries."""
