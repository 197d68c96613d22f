"""The key of the digests of forgotten addresses."""

from __future__ import annotations

from sqlalchemy import SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, Encrypted


class DigestKey(Base):
    """One row, which is made when the first suppressed address is forgotten (docs/privacy.md#what-is-kept).

    Its key is random, and not derived from SECRET_KEY: that may be rotated, and the addresses are not there any more to
    make their digests anew.
    """

    __tablename__ = "digest_key"
    __table_args__ = ()

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    """Always 1."""
    key: Mapped[Encrypted]
