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
NEARLY_WHOLE = {"ix_recipients_by_list", "ix_recipients_by_message", "uq_unsubscribers_list"}
"""Indexes of some rows that may have nearly all of their table."""
FEW_IN_ACCOUNT = {"lists", "messages"}
"""Tables that grow, though each account has few of their rows."""
LARGE, SMALL = 1_000_000, 100
"""Rows of a table that grows, and of a bounded one."""
SHARE_OF_PARTIAL = 10
"""An index of some rows has one of so many, but for those of `NEARLY_WHOLE`."""
SHARE_OF_ACCOUNT = 2
"""An account has one row of so many."""
SHARE_OF_VALUE, SHARES = 10, {"group_id": 50, "label": 1000}
"""One value of a coarse column has one row of so many, with the account or without. Of some there are more values."""
ROWS_OF_VALUE = 10
"""One value of any other column, and of those before it in an index."""

TABLE = "sqlite_stat1"
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
    rows = _rows(connection)
    if not rows:
        return
    if not _has_table(connection, TABLE):
        connection.exec_driver_sql("PRAGMA analysis_limit=1")
        connection.exec_driver_sql(f'ANALYZE "{rows[0][0]}"')
    for name in (TABLE, "sqlite_stat4"):
        if _has_table(connection, name):
            connection.exec_driver_sql(f"DELETE FROM {name}")  # noqa: S608 - constants
    connection.exec_driver_sql(f"INSERT INTO {TABLE} (tbl, idx, stat) VALUES (?, ?, ?)", rows)  # noqa: S608 - the same
    connection.exec_driver_sql("ANALYZE sqlite_master")  # has this connection read them


def has_planner_statistics(connection: Connection) -> bool:
    """Whether a SQLite database has these figures and no others, as after `ANALYZE` by hand; True on PostgreSQL."""
    if connection.dialect.name != "sqlite":
        return True
    if not _has_table(connection, TABLE):
        return False
    present = connection.exec_driver_sql(f"SELECT tbl, idx, stat FROM {TABLE}").all()  # noqa: S608 - a constant
    return {tuple(row) for row in present} == set(_rows(connection))


def _has_table(connection: Connection, name: str) -> bool:
    return connection.exec_driver_sql("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).first() is not None


def _rows(connection: Connection) -> list[tuple[str, str, str]]:
    return [_figures(index) for index in connection.exec_driver_sql(INDEXES)]


def _figures(index: Row[Any]) -> tuple[str, str, str]:
    """The row of `sqlite_stat1` for the index: how many rows it has, and how many each value of its first columns."""
    rows = SMALL if index.table_name in BOUNDED_TABLES else LARGE
    if index.is_partial and index.index_name not in NEARLY_WHOLE:
        rows //= SHARE_OF_PARTIAL
    figures = rows, *_rows_of_values(index.table_name, orjson.loads(index.columns), rows, is_unique=index.is_unique)
    return index.table_name, index.index_name, " ".join(map(str, figures))


def _rows_of_values(table: str, columns: Sequence[str | None], rows: int, *, is_unique: bool) -> Iterator[int]:
    """How many rows there are for one value of the first column, of the first two, and so on. An expression has no
    name."""
    coarse = COARSE_COLUMNS.get(table, frozenset()) | (set() if table in FEW_IN_ACCOUNT else {"account_id"})
    figure, share, is_coarse = rows, 1, True
    for place, name in enumerate(columns, start=1):
        is_coarse = is_coarse and name in coarse
        if name == "id" or (is_unique and place == len(columns)):
            figure = 1
        elif not is_coarse:
            figure = min(figure, ROWS_OF_VALUE)
        elif name == "account_id":
            figure = rows // SHARE_OF_ACCOUNT
        else:
            share *= SHARES.get(name or "", SHARE_OF_VALUE)
            figure = max(rows // share, 1)
        yield figure
