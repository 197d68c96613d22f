"""A database with many rows in every table that grows, written by the database itself: for tests of plans.

Contacts, sends, recipients and half of the unsubscribers are those of one account; all other rows belong to another
one, as in an installation with many accounts. A column without an expression here gets a value by its type, so that a
new table needs no change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import JSON, Boolean, Column, Connection, Integer, LargeBinary, SmallInteger, Table

from app.db.models import Base
from app.db.planner_statistics import BOUNDED_TABLES
from app.db.types import UtcDateTime

GROWING = {name: table for name, table in Base.metadata.tables.items() if name not in BOUNDED_TABLES}

EMAIL = "'p' || n || '@example.com'"
MOBILE = "'614' || (10000000 + n)"
MOMENTS = {
    "postgresql": "now() + (n - 100000) * interval '10 milliseconds'",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now', ((n - 100000) / 100.0) || ' seconds')",
}
NUMBERS = {
    "postgresql": "SELECT generate_series({first}, {last}) AS n",
    "sqlite": "WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {last}) SELECT n FROM s",
}
NO_BYTES = {"postgresql": "''::bytea", "sqlite": "x''"}
JSON_OBJECTS = {"postgresql": "({})::jsonb", "sqlite": "{}"}
VALUES = (
    """'{"first_name": "F' || (n % 977) || '", "plan": "free", """
    """"born": "1970-01-01", "score": ' || (n % 5000) || '}'"""
)

CONTACTS = {
    "list_id": "1",
    **dict.fromkeys(("email", "email_key", "identifier"), EMAIL),
    "mobile": MOBILE,
    **dict.fromkeys(("subscribed_email", "subscribed_mobile", "is_active"), "true"),
}
RECIPIENTS = {
    **{"email": EMAIL, "mobile": MOBILE, "contact_id": "n", "group_id": "1", "message_id": "1", "list_id": "1"},
    **{"state": "'delivered'", "type": "'email'", "open_type": "'not_opened'"},
}
EVENTS = {"slot": "0", "webhook_id": "1", "payload": "'{}'"}
RUNS = {
    "state": "CASE n % 1000 WHEN 0 THEN 'held' WHEN 1 THEN 'waiting' ELSE 'ended' END",
    "step": "CASE WHEN n % 1000 < 2 THEN 'a day' END",
    "end_time": "CASE WHEN n % 1000 > 1 THEN {moment} END",
    "due_time": "'2100-01-01 00:00:00.000000'",
}
AUDIT = {"account_id": "1 + n % 100", "object_id": "n", "address_digest": "CASE n % 100 WHEN 0 THEN 'd' || n END"}
BULK_ACTIONS = {"state": "'done'", "end_time": "{moment}", "due_time": "{moment}", "creation_time": "{moment}"}
LABELS = {"label": "CASE n % 2 WHEN 0 THEN 'tag:frequent' ELSE 'tag:t' || n END"}
CAPTURED = {"simulates": "'open'", "simulate_time": "CASE n % 1000 WHEN 0 THEN {moment} END"}
EXPRESSIONS = {
    **{"contacts": CONTACTS, "events": EVENTS, "recipients": RECIPIENTS, "automation_runs": RUNS},
    "bulk_actions": BULK_ACTIONS,
    "captured_messages": CAPTURED,
    "recipient_labels": LABELS,
    "soft_bounces": {"kind": "'email'"},
    "unsubscribers": {"kind": "'email'", "account_id": "1 + n % 2"},
    "audit_entries": AUDIT,
    "message_versions": {"message_id": "CASE n WHEN 1 THEN 2 ELSE n END"},
}
ACCOUNT_TABLES = {
    *("contacts", "recipients", "sends", "recipient_steps", "recipient_labels"),
    *("automation_runs", "automation_passed_steps"),
    *("soft_bounces", "inbound_records", "idempotency_records"),
}
REFERENCES = {"webhooks.id": "1", "domains.id": "1", "automations.id": "1", "automation_versions.id": "1"}
"""References to rows other than the one of the same number."""


def fill(connection: Connection, rows: int) -> None:
    """Adds rows to each growing table: up to number `rows` to those of the account, a fifth of them to the others.
    Account 1 has list, message, webhook and automation 1; the other account is 2."""
    with _without_looking_up_references(connection):
        for table in Base.metadata.sorted_tables:
            if table.name in GROWING:
                last = rows if table.name in ACCOUNT_TABLES else rows // 5
                _run(connection, _insert(connection, table, last))
                if connection.dialect.name == "postgresql" and "id" in table.columns:
                    _run(connection, f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), {last})")
    if connection.dialect.name == "postgresql":
        _run(connection, "ANALYZE")


@contextmanager
def _without_looking_up_references(connection: Connection) -> Iterator[None]:
    """PostgreSQL looks up each reference of each row by a statement of its own, unless a superuser says otherwise."""
    may = "SELECT current_setting('is_superuser') = 'on'"
    if connection.dialect.name != "postgresql" or not connection.exec_driver_sql(may).scalar():
        yield
        return
    # For the session, since the engine may commit each statement at once.
    _run(connection, "SET session_replication_role = 'replica'")
    try:
        yield
    finally:
        _run(connection, "RESET session_replication_role")


def _run(connection: Connection, statement: str) -> None:
    """Executes on the driver, where a percent sign is no placeholder then."""
    connection.connection.cursor().execute(statement)


def _insert(connection: Connection, table: Table, rows: int) -> str:
    dialect = connection.dialect.name
    newest = "coalesce(max(id), 0)" if "id" in table.columns else "0"
    there = connection.exec_driver_sql(f"SELECT {newest} FROM {table.name}").scalar() or 0
    columns = {column.name: _expression(column, table.name, dialect) for column in table.columns}
    given = {name: expression for name, expression in columns.items() if expression is not None}
    numbers = NUMBERS[dialect].format(first=there + 1, last=rows)
    names = ", ".join(f'"{name}"' for name in given)
    return f"INSERT INTO {table.name} ({names}) SELECT {', '.join(given.values())} FROM ({numbers}) AS numbers"


def _expression(column: Column[Any], table: str, dialect: str) -> str | None:
    """The SQL of the value; None where the column stays null."""
    if column.name == "id":
        return "n"
    if column.name in EXPRESSIONS.get(table, {}):
        return EXPRESSIONS[table][column.name].replace("{moment}", MOMENTS[dialect])
    if column.name == "account_id":
        return "1" if table in ACCOUNT_TABLES else "2"
    if (table, column.name) == ("contacts", "values"):
        return JSON_OBJECTS[dialect].format(VALUES)
    if column.nullable and (table, column.name) != ("recipients", "sent_time"):
        return None
    for key in column.foreign_keys:
        return REFERENCES.get(key.target_fullname, "n")
    return _by_type(column, dialect)


def _by_type(column: Column[Any], dialect: str) -> str:
    if isinstance(column.type, UtcDateTime):
        return MOMENTS[dialect]
    if isinstance(column.type, Boolean):
        return "false"
    if isinstance(column.type, SmallInteger):
        return "n % 30000"
    if isinstance(column.type, Integer):
        return "n"
    if isinstance(column.type, LargeBinary):
        return NO_BYTES[dialect]
    if isinstance(column.type, JSON):
        return JSON_OBJECTS[dialect].format("'{}'")
    return f"'{column.name}' || n"
