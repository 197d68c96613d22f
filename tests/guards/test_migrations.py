"""Migrations and models agree, both ways and on both databases."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from sqlalchemy import Connection, Engine, create_engine, inspect, text
from sqlalchemy.schema import CreateIndex, DropIndex

from app.db import migrate
from app.db.models import Base, Recipient, table_of
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
        return {name for name in names if not (migrate.PARTITION.fullmatch(name) and name.rpartition("_")[0] in names)}
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


def test_what_groups_have_counted_survives_slots_both_ways(database_url: str) -> None:
    """Revision 0013: the sum of the group's row and its slots is kept; below it, the row alone has it."""
    migrate.upgrade(database_url, "0012")
    engine = create_engine(database_url)
    try:
        with engine.begin() as connection:
            for statement in GROUPS_OF_REVISION_0012:
                connection.execute(text(statement))
        migrate.upgrade(database_url, "0013")
        with engine.begin() as connection:
            connection.execute(text(SLOTS))
        migrate.downgrade(database_url, "0012")
        with engine.connect() as connection:
            groups = connection.execute(text("SELECT * FROM transactional_groups ORDER BY id")).mappings().all()
    finally:
        engine.dispose()
    counts = [tuple(row[name] for name in ("sent", "delivered", "bounced", "unsubscribed")) for row in groups]
    assert counts == [(105, 96, 3, 1), (7, 6, 1, 0)]
    assert [str(row["last_sent_time"])[:10] for row in groups] == ["2026-01-03", "2026-01-02"]
    migrate.upgrade(database_url)
    assert is_current(database_url)


COUNTED = "failed_contacts, opened, clicked, sent, delivered, bounced, unsubscribed"
GROUPS_OF_REVISION_0012 = (
    "INSERT INTO accounts (id, name, owner_confirmed, allowed_networks, creation_time, last_modified_time) "
    "VALUES (1, 'a', true, '[]', '2026-01-01', '2026-01-01')",
    "INSERT INTO transactional_groups (id, account_id, type, name, creation_time, last_sent_time, "
    f"{COUNTED}) VALUES (1, 1, 'email', 'a', '2026-01-01', '2026-01-02', 0, 0, 0, 100, 98, 2, 0), "
    "(2, 1, 'email', 'b', '2026-01-01', '2026-01-02', 0, 0, 0, 7, 6, 1, 0)",
)
SLOTS = (
    f"INSERT INTO group_counts (group_id, slot, account_id, last_sent_time, {COUNTED}) VALUES "
    "(1, 3, 1, '2026-01-03', 0, 0, 0, 5, 0, 1, 1), (1, 4, 1, NULL, 0, 0, 0, 0, -2, 0, 0)"
)


def test_the_contacts_that_there_are_count_from_revision_0016_on(database_url: str) -> None:
    migrate.upgrade(database_url, "0015")
    engine = create_engine(database_url)
    try:
        with engine.begin() as connection:
            for statement in (GROUPS_OF_REVISION_0012[0], *CONTACTS_OF_REVISION_0015):
                connection.execute(text(statement))
        for _ in range(2):
            migrate.upgrade(database_url, "0016")
            with engine.connect() as connection:
                counts = connection.execute(
                    text("SELECT list_id, slot, account_id, contacts FROM contact_counts")
                ).all()
            assert sorted(map(tuple, counts)) == [(1, 0, 1, 2), (2, 0, 1, 1)]
            migrate.downgrade(database_url, "0015")
    finally:
        engine.dispose()


CONTACTS_OF_REVISION_0015 = (
    "INSERT INTO lists (id, account_id, name, system, allow_duplicates, stop_words, creation_time, last_modified_time) "
    "VALUES (1, 1, 'a', false, false, '[]', '2026-01-01', '2026-01-01'), "
    "(2, 1, 'b', false, false, '[]', '2026-01-01', '2026-01-01'), "
    "(3, 1, 'c', false, false, '[]', '2026-01-01', '2026-01-01')",
    "INSERT INTO contacts (account_id, list_id, subscribed_email, subscribed_mobile, is_active, double_opt_in, "
    'creation_time, last_modified_time, "values") '
    "SELECT 1, list_id, true, true, true, false, '2026-01-01', '2026-01-01', '{}' "
    "FROM (SELECT 1 AS list_id UNION ALL SELECT 1 UNION ALL SELECT 2) AS three",
)


def test_the_steps_that_runs_have_passed_count_from_revision_0031_on(database_url: str) -> None:
    migrate.upgrade(database_url, "0030")
    engine = create_engine(database_url)
    try:
        with engine.begin() as connection:
            for statement in (GROUPS_OF_REVISION_0012[0], *PASSED_STEPS_OF_REVISION_0030):
                connection.execute(text(statement))
        for _ in range(2):
            migrate.upgrade(database_url, "0031")
            with engine.connect() as connection:
                counts = connection.execute(
                    text("SELECT step_id, result, slot, account_id, passed FROM automation_step_counts")
                ).all()
            assert sorted(map(tuple, counts)) == [(7, "else", 0, 1, 1), (7, "then", 0, 1, 2), (8, "done", 0, 1, 1)]
            migrate.downgrade(database_url, "0030")
    finally:
        engine.dispose()


PASSED_STEPS_OF_REVISION_0030 = (
    CONTACTS_OF_REVISION_0015[0],
    "INSERT INTO automations (id, account_id, name, kind, list_id, action, state, version, shifted_seconds, "
    "creation_time, last_modified_time) "
    "VALUES (1, 1, 'a', 'advanced', 1, 'created', 'active', 1, 0, '2026-01-01', '2026-01-01')",
    "INSERT INTO automation_versions (id, account_id, automation_id, number, definition, creation_time) "
    "VALUES (1, 1, 1, 1, '{}', '2026-01-01')",
    *(
        "INSERT INTO automation_runs (id, account_id, automation_id, version_id, list_id, contact_id, entry_key, "
        "trigger_time, state, due_time, attempts, skips_next, shifted_seconds) "
        f"VALUES ({number}, 1, 1, 1, 1, {number}, 0, '2026-01-01', 'waiting', '2026-01-01', 0, false, 0)"
        for number in (1, 2, 3)
    ),
    "INSERT INTO automation_passed_steps (account_id, run_id, step_id, time, result) VALUES "
    "(1, 1, 7, '2026-01-01', 'then'), (1, 2, 7, '2026-01-01', 'then'), (1, 3, 7, '2026-01-01', 'else'), "
    "(1, 1, 8, '2026-01-01', 'done')",
)


def test_back_offs_and_soft_bounces_keep_their_rows_under_new_names(database_url: str) -> None:
    """Revision 0020, both ways, and further rows get ids of their own."""
    migrate.upgrade(database_url, "0019")
    engine = create_engine(database_url)
    try:
        with engine.begin() as connection:
            connection.execute(text(GROUPS_OF_REVISION_0012[0]))
        add_to(engine, NAMES_OF_REVISION_0019, "1")
        migrate.upgrade(database_url, "0020")
        add_to(engine, NAMES_OF_REVISION_0020, "2")
        both = [rows_of(engine, names) for names in NAMES_OF_REVISION_0020]
        migrate.downgrade(database_url, "0019")
        assert [rows_of(engine, names) for names in NAMES_OF_REVISION_0019] == both
        add_to(engine, NAMES_OF_REVISION_0019, "3")
    finally:
        engine.dispose()
    assert both == [[("a1", "b1", 1), ("a2", "b2", 2)], [("a1", 1, 1), ("a2", 2, 2)]]


def test_stored_messages_are_the_same_with_and_without_versions(database_url: str) -> None:
    """Revision 0064, both ways; what a message says has no version before its first change."""
    migrate.upgrade(database_url, "0063")
    engine = create_engine(database_url)
    try:
        with engine.begin() as connection:
            for statement in (GROUPS_OF_REVISION_0012[0], MESSAGE_OF_REVISION_0063):
                connection.execute(text(statement))
        migrate.upgrade(database_url, "0064")
        with engine.begin() as connection:
            assert connection.execute(text("SELECT count(*) FROM message_versions")).scalar_one() == 0
            connection.execute(text(VERSION_OF_REVISION_0064))
        migrate.downgrade(database_url, "0063")
        with engine.connect() as connection:
            assert connection.execute(text("SELECT id, name, body_html FROM messages")).all() == [(1, "a", "<p>")]
    finally:
        engine.dispose()


MESSAGE_OF_REVISION_0063 = (
    "INSERT INTO messages (id, account_id, name, type, body_html, creation_time, last_modified_time) "
    "VALUES (1, 1, 'a', 'email', '<p>', '2026-01-01', '2026-01-01')"
)
VERSION_OF_REVISION_0064 = (
    "INSERT INTO message_versions (account_id, message_id, number, time, changed, name) "
    "VALUES (1, 1, 1, '2026-01-01', '[]', 'a')"
)


NAMES_OF_REVISION_0019 = (
    ("destination_pauses", "sender_domain, domain, failures", ", until_time"),
    ("address_troubles", "address, temporary_bounces, forgotten_by", ", kind"),
)
NAMES_OF_REVISION_0020 = (
    ("domain_backoffs", "sender_domain, domain, failures", ", until_time"),
    ("soft_bounces", "address, bounces, reset_by", ", kind"),
)


def add_to(engine: Engine, tables: Iterable[tuple[str, str, str]], number: str) -> None:
    """Adds a row to each table, with the number in every column."""
    values = (f"'a{number}', 'b{number}', {number}, '2026-01-01'", f"'a{number}', {number}, {number}, 'email'")
    with engine.begin() as connection:
        for (table, columns, required), row in zip(tables, values, strict=True):
            connection.execute(text(f"INSERT INTO {table} (account_id, {columns}{required}) VALUES (1, {row})"))


def rows_of(engine: Engine, names: tuple[str, str, str]) -> list[tuple[object, ...]]:
    table, columns, _ = names
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(f"SELECT {columns} FROM {table} ORDER BY id"))]


def test_nothing_in_the_models_lacks_a_migration(migrated_url: str) -> None:
    """After a change of the models: `make migration m="what it does"`."""
    assert migrate.differences(migrated_url) == []


def test_migrations_and_models_make_the_same_indexes_of_recipients(migrated_url: str) -> None:
    """Alembic compares neither the conditions of partial indexes nor, on SQLite, those on expressions."""
    engine = create_engine(migrated_url)
    try:
        with engine.connect() as connection:
            made = index_definitions(connection)
            for index in sorted(table_of(Recipient).indexes, key=lambda one: str(one.name)):
                if migrate.included_on(connection.dialect.name)(index, index.name, "index", False, None):
                    connection.execute(DropIndex(index))
                    connection.execute(CreateIndex(index))
            assert index_definitions(connection) == made
    finally:
        engine.dispose()


def index_definitions(connection: Connection) -> dict[str, str]:
    """The indexes of the table of recipients, as the database writes them."""
    if connection.dialect.name == "postgresql":
        found = "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'recipients'"
    else:
        found = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'recipients' AND sql <> ''"
    return {name: definition.replace('"', "") for name, definition in connection.execute(text(found)).all()}


def test_no_id_is_given_twice_on_sqlite() -> None:
    """Alembic compares columns, not AUTOINCREMENT, which is lost when it rebuilds a table."""
    with short_folder() as folder:
        database_url = migrated_file(folder / "tms.sqlite3")
        engine = create_engine(database_url)
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'table'")).all()
        engine.dispose()
    promised = {name for name, one in Base.metadata.tables.items() if one.dialect_options["sqlite"]["autoincrement"]}
    assert promised <= {row.name for row in rows if "AUTOINCREMENT" in row.sql}


def test_an_upgrade_to_where_it_is_changes_nothing(migrated_url: str) -> None:
    migrate.upgrade(migrated_url)
    assert is_current(migrated_url)


def test_processes_that_start_together_migrate_once(database_url: str) -> None:
    """Each waits for the first one, and then finds nothing to do (docs/operations.md#migrations)."""
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
