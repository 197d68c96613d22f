"""The entry in the audit log of a migration (docs/audit.md#actions)."""

from __future__ import annotations

from app.audit.record import Act, record
from app.db.database import Database
from app.db.schema import fits


def record_migration(database: Database, action: str, before: str | None, after: str | None) -> None:
    """Records a migration from one revision to another, unless this release cannot write the log of the schema."""
    if fits(database):
        with database.write() as transaction:
            record(transaction, Act(action, changes=[{"field": "revision", "old": before, "new": after}]))
