"""What the database says of itself to releases that do not know its newest migrations."""

from __future__ import annotations

from sqlalchemy import SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base


class SchemaState(Base):
    """Which code works with the schema (app/db/phases.py); one row, written with each migration."""

    __tablename__ = "schema_state"
    __table_args__ = ()

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    """Always 1."""
    oldest_code: Mapped[str]
    """The oldest code that works with the schema."""
    code_in_use: Mapped[str]
    """The oldest code that processes may still run: contracting migrations wait for it."""
