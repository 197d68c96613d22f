"""What SQLite's planner assumes is the same in every database (docs/databases.md#plans)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine

from app.db.field_indexes import FieldIndex, create_index
from app.db.migrate import downgrade, upgrade
from app.db.models import Base
from app.db.planner_statistics import BOUNDED_TABLES, COARSE_COLUMNS, LARGE, SMALL
from tests.support.prepared import migrated_file
from tests.support.servers import short_folder


@pytest.fixture
def file_url() -> Iterator[str]:
    with short_folder() as folder:
        yield migrated_file(folder / "tms.sqlite3")


def run(url: str, *statements: str) -> list[tuple[object, ...]]:
    """The rows of the last statement, of a new connection."""
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            result = connection.exec_driver_sql(statement)
        rows = [tuple(row) for row in result] if result.returns_rows else []
    engine.dispose()
    return rows


def figures(url: str) -> dict[str, str]:
    """Index -> rows, and rows of each value of its first columns."""
    return {str(name): str(stat) for name, stat in run(url, "SELECT idx, stat FROM sqlite_stat1")}


def test_every_index_of_a_new_database_has_figures(file_url: str) -> None:
    created = run(file_url, "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
    names, present = {name for (name,) in created}, figures(file_url)
    assert len(names) > 100
    assert names - present.keys() == set()
    assert present["ix_recipients_page"] == f"{LARGE} 500000 10 1"
    assert present["ix_unsubscribers_list_id"] == f"{LARGE} 500000 100000 10 1"
    assert present["uq_unsubscribers_account"] == "10000 5000 1000 1"
    assert present["sqlite_autoindex_list_fields_1"] == f"{LARGE} 10 1"
    assert present["sqlite_autoindex_schema_state_1"] == f"{SMALL} 1"


def test_an_address_is_looked_up_by_its_index_before_anything_is_stored(file_url: str) -> None:
    """Without figures SQLite would read all entries of the account that are for all lists."""
    statement = (
        "EXPLAIN QUERY PLAN SELECT id FROM unsubscribers WHERE account_id = 1 AND kind = 'email' "
        "AND address IN (SELECT value FROM json_each('[]')) AND list_id IS NULL"
    )
    plan = run(file_url, statement)[0][3]
    assert plan == "SEARCH unsubscribers USING INDEX uq_unsubscribers_account (account_id=? AND kind=? AND address=?)"


def test_an_upgrade_puts_them_back_in_place_of_those_that_somebody_has_taken(file_url: str) -> None:
    before = figures(file_url)
    run(file_url, "INSERT INTO routing_version (id, version) VALUES (2, 1)", "ANALYZE")
    assert figures(file_url) != before
    upgrade(file_url)
    assert figures(file_url) == before


def test_an_index_of_a_field_gets_them(file_url: str) -> None:
    create_index(file_url, FieldIndex("score", "number"))
    assert figures(file_url)["ix_contacts_field_number_score"] == "10000 1000 10"


def test_a_database_without_tables_has_none(file_url: str) -> None:
    downgrade(file_url, "base")
    assert set(figures(file_url)) == {"sqlite_autoindex_alembic_version_1"}


def test_the_tables_and_columns_that_they_name_exist() -> None:
    tables = Base.metadata.tables
    assert tables.keys() >= BOUNDED_TABLES
    assert {name: columns - {*tables[name].columns.keys()} for name, columns in COARSE_COLUMNS.items()} == {
        name: set() for name in COARSE_COLUMNS
    }
