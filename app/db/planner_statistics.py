"""What SQLite's planner assumes of tables and indexes (docs/databases.md#plans).

The figures are the same in every database, whatever it contains: so the plans that the tests look at are those of every
installation, from its first statement on. Figures that `ANALYZE` takes are read by new connections alone, and differ
with the number of rows: a sample says of an account with a million contacts that it has as many as the others.
PostgreSQL takes its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, Row

BOUNDED_TABLES = {
    *("accounts", "api_keys", "domains", "dkim_keys", "sms_senders", "webhooks", "webhook_secrets", "account_hosts"),
    *("domain_backoffs", "event_rotation", "purge_positions", "relay_refusals", "reply_parts"),
    *("automations", "automation_versions", "automation_steps"),
    *("routes", "transports", "transport_accounts", "processes", "send_pauses"),
    *("console_links", "console_people", "console_sessions", "console_sign_ins"),
    *("digest_key", "installation_key", "routing_version", "schema_state"),
}
"""Tables whose size is bounded by what people set up and start, by who is signed in, by deferring domains,
by refusing relays, or by incomplete replies, and those of one row."""
COARSE_COLUMNS: Mapping[str, frozenset[str]] = {
    "contacts": frozenset({"list_id"}),
    "recipients": frozenset({"message_id", "list_id", "group_id", "state", "open_type"}),
    "recipient_labels": frozenset({"label"}),
    "send_queue": frozenset({"priority", "pause_id"}),
    "unsubscribers": frozenset({"kind", "list_id"}),
    "blocked_addresses": frozenset({"kind", "reason"}),
    "soft_bounces": frozenset({"kind"}),
    "automation_runs": frozenset({"automation_id", "state", "step"}),
    "events": frozenset({"webhook_id"}),
    "webhook_attempts": frozenset({"webhook_id"}),
    "delayed_purges": frozenset({"stage"}),
    "audit_entries": frozenset({"action", "actor", "object"}),
}
"""Columns of a table that have one value in many of its rows, beside `account_id`."""
LARGE, SMALL = 1_000_000, 100
"""Rows of a table that grows, and of a bounded one."""
SHARE_OF_PARTIAL = 100
"""An index of some rows has one of so many."""
SHARE_OF_ACCOUNT = 2
"""An account has one row of so many."""
SHARE_OF_VALUE = 10
"""One value of a coarse column has one row of so many, with the account or without."""
ROWS_OF_VALUE = 10
"""One value of any other column, and of those before it in an index."""

INDEXES = """
SELECT tables.name AS table_name, indexes.name AS index_name, "unique" AS is_unique, partial AS is_partial,
(SELECT json_group_array(name) FROM pragma_index_info(indexes.name)) AS columns
FROM sqlite_master AS tables JOIN pragma_index_list(tables.name) AS indexes
WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite%'
"""


def write_planner_statistics(connection: Connection) -> None:
    """Writes the figures of all tables and indexes that a SQLite database has, in place of any others, in the
    transaction of the connection. Other connections read them when they are opened."""
    if connection.dialect.name != "sqlite":
        return
    indexes = connection.exec_driver_sql(INDEXES).all()
    if not indexes:
        return
    if not _has_table(connection, "sqlite_stat1"):
        connection.exec_driver_sql("PRAGMA analysis_limit=1")
        connection.exec_driver_sql(f'ANALYZE "{indexes[0].table_name}"')
    for name in ("sqlite_stat1", "sqlite_stat4"):
        if _has_table(connection, name):
            connection.exec_driver_sql(f"DELETE FROM {name}")  # noqa: S608 - constants
    rows = [_figures(index) for index in indexes]
    connection.exec_driver_sql("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?, ?, ?)", rows)
    connection.exec_driver_sql("ANALYZE sqlite_master")  # has this connection read them


def _has_table(connection: Connection, name: str) -> bool:
    return connection.exec_driver_sql("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).first() is not None


def _figures(index: Row[Any]) -> tuple[str, str, str]:
    """The row of `sqlite_stat1` for the index: how many rows it has, and how many each value of its first columns."""
    rows = SMALL if index.table_name in BOUNDED_TABLES else LARGE
    rows = rows // SHARE_OF_PARTIAL if index.is_partial else rows
    figures = rows, *_rows_of_values(index.table_name, orjson.loads(index.columns), rows, is_unique=index.is_unique)
    return index.table_name, index.index_name, " ".join(map(str, figures))


def _rows_of_values(table: str, columns: Sequence[str | None], rows: int, *, is_unique: bool) -> Iterator[int]:
    """How many rows there are for one value of the first column, of the first two, and so on. An expression has no
    name."""
    coarse, figure, share, is_coarse = COARSE_COLUMNS.get(table, frozenset()), rows, 1, True
    for place, name in enumerate(columns, start=1):
        is_coarse = is_coarse and (name == "account_id" or name in coarse)
        if name == "id" or (is_unique and place == len(columns)):
            figure = 1
        elif not is_coarse:
            figure = min(figure, ROWS_OF_VALUE)
        elif name == "account_id":
            figure = rows // SHARE_OF_ACCOUNT
        else:
            share *= SHARE_OF_VALUE
            figure = max(rows // share, 1)
        yield figure
