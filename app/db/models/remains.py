"""Whether forgetting has left something in the files of the database."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base


class Remains(Base):
    """One row, from a removal until the maintenance has cleaned the files (docs/privacy.md#remains-in-files)."""

    __tablename__ = "remains"
    __table_args__ = ()

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    """Always 1."""
    since_time: Mapped[datetime]
    """Of the last removal."""
