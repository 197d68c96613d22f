"""The counters of groups (docs/endpoints.md#transactional-groups)."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import bindparam, update

from app.db.database import Transaction
from app.db.models import Group, table_of


def count_in_group(transaction: Transaction, group_id: int, **increments: int) -> None:
    """Adds to counters, by name. Call it last: other transactions that count in the same group wait for the rest of
    this one, which should be no more than its commit."""
    columns = table_of(Group).c
    values = {name: columns[name] + increment for name, increment in increments.items()}
    transaction.connection().execute(update(table_of(Group)).where(columns.id == group_id).values(values))


def count_in_groups(transaction: Transaction, counts: Mapping[int, Mapping[str, int]]) -> None:
    """The same for several groups by id, with the same counters each; in ascending order of groups, so that two
    transactions cannot deadlock."""
    if not counts:
        return
    columns = table_of(Group).c
    names = next(iter(counts.values()))
    values = {name: columns[name] + bindparam(f"more_{name}") for name in names}
    rows = [{"row": group, **{f"more_{name}": counts[group][name] for name in names}} for group in sorted(counts)]
    transaction.connection().execute(update(table_of(Group)).where(columns.id == bindparam("row")).values(values), rows)
