"""Each migration does what its phase promises (docs/upgrade.md#migrations)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, Inspector, NullPool, create_engine, inspect

from app.db import migrate, phases
from tests.support.servers import short_folder

pytestmark = pytest.mark.filterwarnings("ignore:.*expression-based index")

Tables = dict[str, dict[str, Any]]


def tables_of(connection: Connection) -> Tables:
    """What code relies on, of each table."""
    inspector = inspect(connection)
    return {name: table_of(inspector, name) for name in inspector.get_table_names()}


def table_of(inspector: Inspector, name: str) -> dict[str, Any]:
    references = inspector.get_foreign_keys(name)
    return {
        "columns": {column["name"]: column for column in inspector.get_columns(name)},
        "key": inspector.get_pk_constraint(name)["constrained_columns"],
        "indexes": {index["name"]: index for index in inspector.get_indexes(name)},
        "unique": {tuple(unique["column_names"]) for unique in inspector.get_unique_constraints(name)},
        "references": {(*reference["constrained_columns"], reference["referred_table"]) for reference in references},
        "checks": {check["sqltext"] for check in inspector.get_check_constraints(name)},
    }


def losses(before: Tables, after: Tables) -> list[str]:
    """What keeps code that works with the tables before from working with those after."""
    lost = [f"table {name} is gone" for name in before if name not in after]
    for name in before.keys() & after.keys():
        lost += [f"{name}: {loss}" for loss in _losses(before[name], after[name])]
    return lost


def _losses(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    columns, were = new["columns"], old["columns"]
    lost = [f"column {column} is gone" for column in were if column not in columns]
    for name in were.keys() & columns.keys():
        if str(were[name]["type"]) != str(columns[name]["type"]):
            lost.append(f"column {name} has another type")
        if were[name]["nullable"] and not columns[name]["nullable"]:
            lost.append(f"column {name} must have a value now")
    lost += [
        f"new column {name} needs a value"
        for name, column in columns.items()
        if name not in were and not column["nullable"] and column["default"] is None
    ]
    lost += [f"index {index} is gone" for index in old["indexes"] if index not in new["indexes"]]
    lost += [
        f"unique index {name} on columns that there were"
        for name, index in new["indexes"].items()
        if name not in old["indexes"] and index["unique"] and set(index["column_names"]) <= were.keys()
    ]
    lost += ["another key"] if old["key"] != new["key"] else []
    lost += [f"another {kind}" for kind in ("unique", "checks") if old[kind] != new[kind]]
    lost += [
        f"new reference {reference}"
        for reference in new["references"] - old["references"]
        if set(reference[:-1]) <= were.keys()
    ]
    return lost


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """A database of the first release."""
    with short_folder() as folder:
        database_url = f"sqlite:///{folder}/tms.sqlite3"
        migrate.upgrade(database_url, phases.BASELINE)
        made = create_engine(database_url, poolclass=NullPool)
        yield made
        made.dispose()


@pytest.mark.parametrize(
    ("statement", "loss"),
    [
        ("ALTER TABLE domains DROP COLUMN tracking_host", "domains: column tracking_host is gone"),
        ("ALTER TABLE domains ADD COLUMN kind VARCHAR NOT NULL DEFAULT 'a'", None),
        ("DROP TABLE captured_messages", "table captured_messages is gone"),
        ("DROP INDEX ix_automations_release", "automations: index ix_automations_release is gone"),
        ("CREATE INDEX ix_new ON domains (name)", None),
        ("CREATE UNIQUE INDEX ix_new ON domains (name)", "domains: unique index ix_new on columns that there were"),
        ("ALTER TABLE domains RENAME COLUMN name TO host", "domains: column name is gone"),
    ],
)
def test_the_check_finds_what_breaks_older_code(engine: Engine, statement: str, loss: str | None) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        before = tables_of(connection)
        connection.exec_driver_sql(statement)
        lost = losses(before, tables_of(connection))
        connection.exec_driver_sql("ROLLBACK")
    assert lost == [] if loss is None else loss in lost


def test_every_expanding_migration_only_adds(engine: Engine) -> None:
    wrong = []
    with engine.connect() as connection:
        before = tables_of(connection)
    for migration in phases.migrations():
        if migration.revision > phases.BASELINE:
            migrate.upgrade(engine.url.render_as_string(), migration.revision)
            with engine.connect() as connection:
                after = tables_of(connection)
            if migration.phase == "expand":
                wrong += [f"{migration.revision}: {loss}" for loss in losses(before, after)]
            before = after
    assert wrong == [], 'such a migration has `phase = "contract"` and `needs`'
