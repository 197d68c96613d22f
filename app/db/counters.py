"""The counters of a group (specification: Transactional groups)."""

from __future__ import annotations

from sqlalchemy import update

from app.db.database import Transaction
from app.db.models import Group, table_of


def count_in_group(transaction: Transaction, group_id: int, **more: int) -> None:
    """Adds to counters, by name. To be called last: whoever counts in the same group waits for the rest of this
    transaction, and that should be no more than its commit."""
    columns = table_of(Group).c
    counted = update(table_of(Group)).where(columns.id == group_id)
    transaction.connection().execute(counted.values({name: columns[name] + number for name, number in more.items()}))
