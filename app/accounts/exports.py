"""The entry in the audit log of rows of an account that are handed out as a file (docs/audit.md#actions)."""

from __future__ import annotations

from app.audit.record import Act, record_at_once
from app.db.database import Database


def record_export(
    database: Database,
    action: str,
    account_id: int,
    *,
    object_id: int | None = None,
    name: str | None = None,
    **counts: int,
) -> None:
    """Records, before the first row is written, that rows are handed out; `object_id` and `name` are those of what they
    belong to."""
    record_at_once(database, Act(action, account_id, object_id, name, counts=counts))
