"""Counters that many transactions change at once, in slots: rows that are added up when they are read.

The transaction that changes a row holds it until its commit, so a single row would limit everything that it counts to
one commit after the other: with synchronous replication to some 200 a second. Each connection to PostgreSQL writes its
own slot; SQLite has one writer, and one slot.

What a transaction counts is added up in it and written right before the commit, by one statement on PostgreSQL. Its
rows are written in a fixed order, the kinds as listed below and each by key, so that two transactions that share a slot
do not deadlock, and none waits for a slot longer than for a commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Any

from sqlalchemy import Connection

from app.db.bulk import Conflict, Shape, as_json, insert_new_rows, insert_of
from app.db.database import Transaction
from app.db.expressions import is_postgresql
from app.db.models import AutomationStepCount, Base, ContactCount, GroupCount, HourlyCount, TagCount, table_of
from app.db.prepared import DriverStatement

SLOTS = 16
PENDING_KEY = "counts"

Key = tuple[Any, ...]
"""The account's id and the values of a kind's key columns."""


class Counters:
    """A kind of counters: its model has the columns of `key`, `slot`, `account_id`, times of which the `latest` counts,
    and counters. `position` is its place in the fixed order. A key is unique by itself, or `within_account`."""

    def __init__(
        self,
        position: int,
        model: type[Base],
        *,
        key: tuple[str, ...],
        latest: tuple[str, ...] = (),
        within_account: bool = False,
    ) -> None:
        self.position = position
        self.latest = latest
        self.model = model
        self.table = table_of(model)
        self.owner = ("account_id", *key)
        """The columns of a `Key`."""
        self.unique = ("account_id", *key, "slot") if within_account else (*key, "slot")
        others = {"account_id", *self.unique, *latest}
        self.names = tuple(column.name for column in self.table.columns if column.name not in others)
        self.nothing = {**dict.fromkeys(latest), **dict.fromkeys(self.names, 0)}
        self.shape = Shape(self.table, (), (*self.owner, "slot", *latest, *self.names), ())
        sums = ((name, f"{self.table.name}.{name} + excluded.{name}") for name in self.names)
        newest = ((name, _later(f"{self.table.name}.{name}", f"excluded.{name}")) for name in latest)
        self.conflict = Conflict(self.unique, (*sums, *newest))


def _later(first_time: str, second_time: str) -> str:
    """The later of two times, of which one or both may be null; the databases have no function for it in common."""
    return f"CASE WHEN {first_time} > {second_time} OR {second_time} IS NULL THEN {first_time} ELSE {second_time} END"


CONTACT_COUNTS = Counters(10, ContactCount, key=("list_id",))
HOURLY_COUNTS = Counters(20, HourlyCount, key=("group_id", "hour"))
GROUP_COUNTS = Counters(30, GroupCount, key=("group_id",), latest=("last_sent_time",))
TAG_COUNTS = Counters(35, TagCount, key=("tag", "hour"), within_account=True)
STEP_COUNTS = Counters(40, AutomationStepCount, key=("step_id", "result"))


def count(
    transaction: Transaction, counters: Counters, account_id: int, key: Key, **increments: int | datetime
) -> None:
    """Adds to counters, by name, in this transaction; a time replaces an earlier one. The `key` has the values of the
    columns of that name."""
    pending = transaction.at_commit.get(PENDING_KEY)
    if not isinstance(pending, _PendingCounts):
        pending = transaction.at_commit[PENDING_KEY] = _PendingCounts(transaction)
    pending.add(counters, (account_id, *key), increments)


def count_in_group(
    transaction: Transaction,
    account_id: int,
    group_id: int,
    moment: datetime,
    tags: Sequence[str] | None = None,
    **increments: int,
) -> None:
    """Adds to the counters of a group, by name, and to those of the hour of `moment`, also of each tag."""
    count(transaction, GROUP_COUNTS, account_id, (group_id,), **increments)
    count(transaction, HOURLY_COUNTS, account_id, (group_id, hour_of(moment)), **increments)
    if tags:
        count_tags(transaction, account_id, tags, moment, **increments)


def count_tags(
    transaction: Transaction, account_id: int, tags: Sequence[str], moment: datetime, **increments: int
) -> None:
    """Adds to the counters of each tag, by name, of the hour of `moment`."""
    for tag in tags:
        count(transaction, TAG_COUNTS, account_id, (tag, hour_of(moment)), **increments)


def hour_of(moment: datetime) -> datetime:
    """The beginning of the hour."""
    return moment.replace(minute=0, second=0, microsecond=0)


class _PendingCounts:
    """What a transaction has counted so far; called at its end, it returns the statement that writes that. SQLite has
    no round trips to save: there it writes at once."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._counts: dict[Counters, dict[Key, dict[str, Any]]] = {}

    def add(self, counters: Counters, key: Key, increments: Mapping[str, Any]) -> None:
        counts = self._counts.setdefault(counters, {}).setdefault(key, {})
        for name, increment in increments.items():
            current = counts.get(name)
            if current is None:
                counts[name] = increment
            else:
                counts[name] = max(current, increment) if name in counters.latest else current + increment

    def __call__(self) -> list[DriverStatement]:
        kinds = sorted(self._counts, key=lambda counters: counters.position)
        rows = {
            counters: counter_rows for counters in kinds if (counter_rows := _rows(counters, self._counts[counters]))
        }
        if not rows:
            return []
        connection = self._transaction.connection()
        on_postgresql = is_postgresql(self._transaction)
        slot = _slot_of(connection) if on_postgresql else 0
        for row in chain(*rows.values()):
            row["slot"] = slot
        if on_postgresql:
            return [(_statement(tuple(rows)), [as_json(counter_rows) for counter_rows in rows.values()])]
        for counters, counter_rows in rows.items():
            insert_new_rows(self._transaction, counters.model, counter_rows, conflict=counters.conflict)
        return []


def _slot_of(connection: Connection) -> int:
    """Depends on the process that serves the connection: connections opened one after another have different slots."""
    driver: Any = connection.connection.driver_connection
    return int(driver.info.backend_pid) % SLOTS


def _rows(counters: Counters, counts: Mapping[Key, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows without their slot, in the order of their keys, without those that change nothing."""
    columns, nothing = counters.owner, counters.nothing
    return [
        {**dict(zip(columns, key, strict=True)), **nothing, **counts[key]}
        for key in sorted(counts)
        if any(counts[key].values())
    ]


@lru_cache
def _statement(kinds: Sequence[Counters]) -> str:
    """One statement for all of them. Each part reads how many rows the one before has written, because PostgreSQL
    guarantees no order for independent parts of a statement."""
    *first, last = (_insert(counters, before) for counters, before in zip(kinds, (None, *kinds[:-1]), strict=True))
    parts = [
        f"{counters.table.name}_written AS ({text} RETURNING 1)" for counters, text in zip(kinds, first, strict=False)
    ]
    return f"WITH {', '.join(parts)} {last}" if parts else last


def _insert(counters: Counters, before: Counters | None) -> str:
    earlier = f"(SELECT count(*) FROM {before.table.name}_written) AS earlier" if before else ""  # noqa: S608 - names of models
    return insert_of(counters.shape, counters.conflict, (), (earlier,) if earlier else ())
