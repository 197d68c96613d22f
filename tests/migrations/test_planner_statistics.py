"""What SQLite's planner assumes is the same in every database (docs/databases.md#plans)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import create_engine

from app.db.field_indexes import FieldIndex, create_index
from app.db.migrate import downgrade, upgrade
from app.db.models import Base
from app.db.planner_statistics import BOUNDED_TABLES, COARSE_COLUMNS, FEW_IN_ACCOUNT, LARGE, NEARLY_WHOLE, SMALL
from app.launcher.service import migrate_database
from tests.conftest import test_settings
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
    assert present["uq_unsubscribers_account"] == "100000 50000 10000 1"
    assert present["ix_lists_page"] == f"{LARGE} 10 10 1"
    assert NEARLY_WHOLE - present.keys() == set()
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


ANALYZED = "INSERT INTO sqlite_stat1 VALUES ('accounts', NULL, '7')"
"""As `ANALYZE` leaves it for a table all of whose indexes have some of its rows."""


def upgrade_by_command(url: str) -> None:
    upgrade(url)


def start(url: str) -> None:
    with short_folder() as folder:
        migrate_database(test_settings(folder, DATABASE_URL=url))


@pytest.mark.parametrize("repair", [upgrade_by_command, start])
@pytest.mark.parametrize("damage", ["ANALYZE", ANALYZED, "DELETE FROM sqlite_stat1", "DROP TABLE sqlite_stat1"])
def test_an_upgrade_and_a_start_put_them_back(file_url: str, repair: Callable[[str], None], damage: str) -> None:
    before = figures(file_url)
    run(file_url, damage)
    repair(file_url)
    assert figures(file_url) == before


def test_a_start_that_finds_them_waits_for_no_writer(file_url: str) -> None:
    start(file_url)  # which writes what only the first one has to
    engine = create_engine(file_url)
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        start(file_url)
    engine.dispose()


def test_an_index_of_a_field_gets_them(file_url: str) -> None:
    create_index(file_url, FieldIndex("score", "number"))
    assert figures(file_url)["ix_contacts_field_number_score"] == "100000 10000 10"


def test_a_database_without_tables_has_none(file_url: str) -> None:
    downgrade(file_url, "base")
    assert set(figures(file_url)) == {"sqlite_autoindex_alembic_version_1"}


def test_the_tables_and_columns_that_they_name_exist() -> None:
    tables = Base.metadata.tables
    assert (BOUNDED_TABLES | FEW_IN_ACCOUNT) - tables.keys() == set()
    assert {name: columns - {*tables[name].columns.keys()} for name, columns in COARSE_COLUMNS.items()} == {
        name: set() for name in COARSE_COLUMNS
    }
