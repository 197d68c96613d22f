"""The counters of a group (docs/endpoints.md#transactional-groups)."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import bindparam, update

from app.db.database import Transaction
from app.db.models import Group, table_of


def count_in_group(transaction: Transaction, group_id: int, **more: int) -> None:
    """Adds to counters, by name. To be called last: whoever counts in the same group waits for the rest of this
    transaction, and that should be no more than its commit."""
    columns = table_of(Group).c
    counted = update(table_of(Group)).where(columns.id == group_id)
    transaction.connection().execute(counted.values({name: columns[name] + number for name, number in more.items()}))


def count_in_groups(transaction: Transaction, counts: Mapping[int, Mapping[str, int]]) -> None:
    """The same for several groups by id, which all name the same counters. Groups in ascending order: two transactions
    then never wait for each other."""
    if not counts:
        return
    columns = table_of(Group).c
    names = next(iter(counts.values()))
    more = {name: columns[name] + bindparam(f"more_{name}") for name in names}
    rows = [{"row": group, **{f"more_{name}": counts[group][name] for name in names}} for group in sorted(counts)]
    transaction.connection().execute(update(table_of(Group)).where(columns.id == bindparam("row")).values(more), rows)
