"""Migrations and models agree, both ways and on both databases."""

from __future__ import annotations

import warnings
from functools import partial

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, MetaData, create_engine, inspect, select, text
from sqlalchemy.schema import CreateIndex, DropIndex

from app.db import migrate
from app.db.field_indexes import FieldIndex, create_index
from app.db.history_ranges import PARTITION
from app.db.models import Base
from app.db.phases import BASELINE, LAST_STEP, Part, newest_revision
from tests.support.forked import context
from tests.support.prepared import migrated_file
from tests.support.servers import PATIENCE, short_folder


def is_current(database_url: str) -> bool:
    """Whether there is nothing to upgrade."""
    return migrate.current(database_url) == migrate.newest()


def tables(database_url: str) -> set[str]:
    """The tables without their partitions."""
    engine = create_engine(database_url)
    try:
        names = set(inspect(engine).get_table_names())
        return {name for name in names if not (PARTITION.fullmatch(name) and name.rpartition("_")[0] in names)}
    finally:
        engine.dispose()


def test_up_down_and_up_again(database_url: str) -> None:
    assert not is_current(database_url)
    migrate.upgrade(database_url)
    assert is_current(database_url)
    assert tables(database_url) == {*Base.metadata.tables, "alembic_version"}
    migrate.downgrade(database_url, "base")
    assert migrate.current(database_url) is None
    assert tables(database_url) == {"alembic_version"}
    migrate.upgrade(database_url)
    assert is_current(database_url)


def mark_as_last_step(database_url: str, revision: str = LAST_STEP) -> None:
    """Makes a database one that the migrations before the baseline have made, with an account."""
    migrate.downgrade(database_url, BASELINE)
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text(ACCOUNT))
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{revision}'"))
        connection.execute(text("UPDATE schema_state SET oldest_code = '0034', code_in_use = '0074'"))
    engine.dispose()


ACCOUNT = (
    "INSERT INTO accounts (id, name, owner_confirmed, allowed_networks, creation_time, last_modified_time) "
    "VALUES (1, 'Acme', true, '[]', '2026-01-01', '2026-01-01')"
)
REVISIONS = "SELECT version_num, oldest_code, code_in_use FROM alembic_version, schema_state"


def everything(database_url: str) -> list[str]:
    """All columns and all rows, but those about the revision."""
    engine = create_engine(database_url)
    with engine.connect() as connection, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*expression-based index")
        (metadata := MetaData()).reflect(connection)
        kept = [table for table in metadata.sorted_tables if table.name not in ("alembic_version", "schema_state")]
        rows = [f"{table.name}: {row}" for table in kept for row in connection.execute(select(table))]
    engine.dispose()
    columns = [f"{column}: {column.type}" for table in kept for column in table.columns]
    return sorted([*columns, *(str(index.name) for table in kept for index in table.indexes), *rows])


def revisions(database_url: str) -> tuple[str, ...]:
    engine = create_engine(database_url)
    with engine.connect() as connection:
        (row,) = connection.execute(text(REVISIONS))
    engine.dispose()
    return tuple(row)


@pytest.mark.parametrize("part", ["all", "expand"])
def test_a_database_of_the_last_step_before_the_baseline_is_taken_over_unchanged(migrated_url: str, part: Part) -> None:
    mark_as_last_step(migrated_url)
    before = everything(migrated_url)
    assert migrate.upgrade(migrated_url, BASELINE, part=part) == ()
    assert revisions(migrated_url) == (BASELINE, LAST_STEP, newest_revision() if part == "all" else LAST_STEP)
    assert everything(migrated_url) == before


def test_what_an_operator_has_added_is_in_nobodys_way(migrated_url: str) -> None:
    """Indexes of list fields above all."""
    mark_as_last_step(migrated_url)
    assert create_index(migrated_url, FieldIndex("age", "number"))
    engine = create_engine(migrated_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE notes (text VARCHAR)"))
        connection.execute(text("CREATE INDEX ix_own ON contacts (creation_time)"))
    engine.dispose()
    before = everything(migrated_url)
    migrate.upgrade(migrated_url, BASELINE)
    assert everything(migrated_url) == before
    migrate.upgrade(migrated_url)
    assert is_current(migrated_url)


def test_a_database_of_the_last_step_can_be_taken_back(migrated_url: str) -> None:
    mark_as_last_step(migrated_url)
    migrate.downgrade(migrated_url, "base")
    assert tables(migrated_url) == {"alembic_version"}


def test_it_is_not_taken_over_beside_code_that_does_not_fit(migrated_url: str) -> None:
    mark_as_last_step(migrated_url)
    engine = create_engine(migrated_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE schema_state SET code_in_use = '0072'"))
    engine.dispose()
    assert migrate.upgrade(migrated_url, BASELINE, part="expand") == (BASELINE,)
    assert revisions(migrated_url) == (LAST_STEP, "0034", "0072")
    assert migrate.upgrade(migrated_url, BASELINE, part="contract") == ()
    assert revisions(migrated_url) == (BASELINE, LAST_STEP, LAST_STEP)


@pytest.mark.parametrize(
    ("statement", "difference"),
    [
        ("DROP INDEX ix_sends_account", "ix_sends_account"),
        ("ALTER TABLE sends ADD COLUMN colour VARCHAR", "colour"),
        ("DROP TABLE remains", "remains"),
    ],
)
def test_one_with_another_schema_is_refused_and_left_as_it_is(
    migrated_url: str, statement: str, difference: str
) -> None:
    mark_as_last_step(migrated_url)
    engine = create_engine(migrated_url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()
    before = everything(migrated_url)
    with pytest.raises(migrate.MigrationError, match=f"revision {LAST_STEP} is not as .* make it.*{difference}"):
        migrate.upgrade(migrated_url)
    assert everything(migrated_url) == before
    assert revisions(migrated_url) == (LAST_STEP, "0034", "0074")


def test_an_earlier_one_is_refused_with_the_way_to_get_there(migrated_url: str) -> None:
    mark_as_last_step(migrated_url, "0073")
    before = everything(migrated_url)
    expected = (
        f"revision 0073 is from before the first release: bring it to revision {LAST_STEP} by commit "
        f"{migrate.COMMIT_OF_LAST_STEP}, which this version takes over"
    )
    for act in (migrate.upgrade, migrate.plan_of, partial(migrate.downgrade, revision="base")):
        with pytest.raises(migrate.MigrationError) as raised:
            act(migrated_url)
        assert str(raised.value) == expected
    assert everything(migrated_url) == before


def test_nothing_in_the_models_lacks_a_migration(migrated_url: str) -> None:
    """What to do after a change of the models: `make migration m="what it does"`."""
    assert migrate.differences(migrated_url) == []


def test_migrations_and_models_make_the_same_indexes(migrated_url: str) -> None:
    """Alembic compares neither the conditions of partial indexes nor, on SQLite, those on expressions."""
    engine = create_engine(migrated_url)
    try:
        with engine.connect() as connection:
            made = index_definitions(connection)
            included = migrate.included_on(connection.dialect.name)
            for index in (index for table in Base.metadata.tables.values() for index in table.indexes):
                if included(index, index.name, "index", False, None):
                    connection.execute(DropIndex(index))
                    connection.execute(CreateIndex(index))
            assert index_definitions(connection) == made
    finally:
        engine.dispose()


def index_definitions(connection: Connection) -> dict[str, str]:
    """All indexes but those of partitions, as the database writes them."""
    if connection.dialect.name == "postgresql":
        query = (
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() AND "
            "to_regclass(tablename) NOT IN (SELECT inhrelid FROM pg_inherits)"
        )
    else:
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql <> ''"
    return {name: definition.replace('"', "") for name, definition in connection.execute(text(query)).all()}


def test_migrations_and_models_give_the_same_defaults(migrated_url: str) -> None:
    """Alembic compares none unless it is asked to."""
    engine = create_engine(migrated_url)
    expected = {
        f"{table.name}.{column.name}"
        for table in Base.metadata.tables.values()
        for column in table.columns
        if column.server_default is not None
    }
    with engine.connect() as connection, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*expression-based index")
        options = {"compare_server_default": True, "include_object": migrate.included_on(connection.dialect.name)}
        context_of = MigrationContext.configure(connection, opts=options)
        inspector = inspect(connection)
        given = {
            f"{name}.{column['name']}"
            for name in Base.metadata.tables
            for column in inspector.get_columns(name)
            if column["default"] is not None and "nextval" not in column["default"]
        }
        assert given == expected
        assert compare_metadata(context_of, Base.metadata) == []
    engine.dispose()


def test_no_id_is_given_twice_on_sqlite() -> None:
    """Alembic compares columns, not AUTOINCREMENT, which is lost when it rebuilds a table."""
    with short_folder() as folder:
        database_url = migrated_file(folder / "tms.sqlite3")
        engine = create_engine(database_url)
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'table'")).all()
        engine.dispose()
    promised = {
        name for name, table in Base.metadata.tables.items() if table.dialect_options["sqlite"]["autoincrement"]
    }
    assert promised <= {row.name for row in rows if "AUTOINCREMENT" in row.sql}


def test_an_upgrade_to_where_it_is_changes_nothing(migrated_url: str) -> None:
    migrate.upgrade(migrated_url)
    assert is_current(migrated_url)


def test_processes_that_start_together_migrate_once(database_url: str) -> None:
    """Each waits for the first one, and then finds nothing to do (docs/upgrade.md#migrations)."""
    processes = [context.Process(target=migrate.upgrade, args=(database_url,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE)
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    assert is_current(database_url)


def test_a_failing_migration_leaves_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_connection: object) -> None:
        raise migrate.MigrationError("raised by the test")

    monkeypatch.setattr(migrate, "_check_references", fail)
    with pytest.raises(migrate.MigrationError):
        migrate.upgrade(database_url)
    assert tables(database_url) == set()


def test_rows_that_refer_to_nothing_are_refused() -> None:
    """SQLite rebuilds an altered table with foreign keys off, so they are checked at the end."""
    with short_folder() as folder:
        database_url = migrated_file(folder / "tms.sqlite3")
        engine = create_engine(database_url)
        with engine.begin() as connection:
            connection.execute(
                text("INSERT INTO domains (account_id, name, creation_time) VALUES (1, 'x', '2026-01-01')")
            )
        engine.dispose()
        with pytest.raises(migrate.MigrationError, match="1 rows would refer to nothing, the first in table domains"):
            migrate.upgrade(database_url)
