"""Messages of test accounts, which are captured instead of sent."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index, LargeBinary, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import AccountId, Base, BigInt, Identity, partial_index, personal


class CapturedMessage(Base):
    """A mail or a text message as a relay or a gateway would have got it (docs/testing.md). `id` is the order of
    arrival.

    A message is captured once, however often its delivery is attempted.
    """

    __tablename__ = "captured_messages"
    __table_args__ = (
        UniqueConstraint("recipient_id", "is_copy"),
        Index("ix_captured_messages_account", "account_id", "id"),
        Index("ix_captured_messages_page", "account_id", "captured_time", "id"),
        Index("ix_captured_messages_address", "account_id", "address", "id"),
        Index("ix_captured_messages_time", "captured_time"),
        partial_index("ix_captured_messages_simulate", "simulate_time", where="simulate_time IS NOT NULL"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    recipient_id: Mapped[BigInt]
    """No foreign key: the history is dropped by months."""
    is_copy: Mapped[bool]
    """Whether it is the blind copy of the recipient's mail."""
    uuid: Mapped[str] = mapped_column(info=personal("recipients"))
    """The uuid of the recipient."""
    type: Mapped[str] = mapped_column(info=personal("recipients"))
    """`email` or `sms`."""
    sender: Mapped[str] = mapped_column(info=personal("recipients"))
    """The envelope sender, or the number."""
    address: Mapped[str] = mapped_column(info=personal("blind_copies", address="email"))
    """Where it was going to, normalised. A blind copy goes to another person than the recipient."""
    subject: Mapped[str | None] = mapped_column(info=personal("recipients"))
    content: Mapped[bytes] = mapped_column(LargeBinary, info=personal("recipients"))
    """The whole mail (RFC 5322), or the text in UTF-8."""
    captured_time: Mapped[datetime]
    simulates: Mapped[str | None] = mapped_column(info=personal("recipients"))
    """What becomes of it, if it went to a magic address (docs/testing.md#magic-addresses)."""
    simulate_time: Mapped[datetime | None]
    """When that happens; null once it has."""
