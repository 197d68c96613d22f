"""The keys of digests that outlive SECRET_KEY."""

from __future__ import annotations

from sqlalchemy import SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, Encrypted


class DigestKey(Base):
    """The key of the digests of forgotten addresses, which is made when the first suppressed one is forgotten
    (docs/privacy.md#what-is-kept), and those of the seals of the audit log (docs/audit.md#seals).

    They are random, and not derived from SECRET_KEY: that may be rotated, and what was digested is not there any more
    to be digested anew.
    """

    __tablename__ = "digest_key"
    __table_args__ = ()

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    """1: that of forgotten addresses; from 2 on: those of seals, of which the last is in use."""
    key: Mapped[Encrypted]
