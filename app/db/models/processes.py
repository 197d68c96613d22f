"""The processes of the service, on all hosts."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base


class RunningProcess(Base):
    """A process with its latest heartbeat (docs/monitoring/metrics.md#heartbeats)."""

    __tablename__ = "processes"
    __table_args__ = ()

    name: Mapped[str] = mapped_column(primary_key=True)
    """Host, process id and a random part."""
    roles: Mapped[str]
    """What it does, separated by commas."""
    host: Mapped[str]
    version: Mapped[str]
    start_time: Mapped[datetime]
    seen_time: Mapped[datetime]
    """When its main loop last turned."""
    secret_keys: Mapped[str | None]
    """Short fingerprints of the SECRET_KEYs that it knows, separated by commas; it signs with the first."""
