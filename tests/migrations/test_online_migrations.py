"""Migrations of a PostgreSQL database that others use meanwhile (docs/upgrade.md#migrations)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, Engine, create_engine, text

from app.db import migrate
from app.db.online_index import create_index_online, drop_index_online
from app.db.phases import newest_revision
from tests.support.next_release import EXPANDED
from tests.support.servers import migrated_database, wait_until

ACCOUNT = (
    "INSERT INTO accounts (id, name, owner_confirmed, allowed_networks, creation_time, last_modified_time) "
    "VALUES (1, 'Acme', true, '[]', '2026-01-01', '2026-01-01')"
)
DOMAIN = "INSERT INTO domains (account_id, name, creation_time) VALUES (1, '{}', '2026-01-01')"
NEWEST = newest_revision()
"""The newest revision of this release, before a test installs the next release."""
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@pytest.fixture
def database_url(postgres: str, next_release: Callable[[], None]) -> Iterator[str]:
    """A database with an account, for which there are migrations that need a lock on automations."""
    with migrated_database(postgres) as url:
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text(ACCOUNT))
        engine.dispose()
        next_release()
        yield url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """The engine of another process. Its statements wait for a lock no longer than a migration keeps others out."""
    made = create_engine(database_url, connect_args={"options": "-c lock_timeout=60s"})
    yield made
    made.dispose()


def test_a_migration_lets_others_pass_that_wait_behind_it(
    database_url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A migration that kept its place would wait behind a long transaction, and everybody else behind the migration."""
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "100ms")
    monkeypatch.setattr(migrate, "PAUSE", (0.01, 0.02))
    with ThreadPoolExecutor(1) as thread, engine.connect() as long_transaction:
        long_transaction.execute(text("LOCK TABLE automations IN ROW EXCLUSIVE MODE"))
        upgrade = thread.submit(migrate.upgrade, database_url, EXPANDED)
        wait_until(lambda: "waits until its tables are no longer in use" in caplog.text, "it has tried")
        with engine.begin() as another:
            another.execute(text("LOCK TABLE automations IN ROW EXCLUSIVE MODE"))
        assert not upgrade.done()
        long_transaction.rollback()
        assert upgrade.result() == ()
    assert migrate.current(database_url) == EXPANDED


def test_a_migration_whose_tables_stay_in_use_is_given_up(
    database_url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr(migrate, "PATIENCE_SECONDS", 0.0)
    with engine.connect() as long_transaction:
        long_transaction.execute(text("LOCK TABLE automations IN ROW EXCLUSIVE MODE"))
        with pytest.raises(migrate.MigrationError, match=f"revision {EXPANDED} found its tables in use"):
            migrate.upgrade(database_url)
    assert migrate.current(database_url) == NEWEST


@contextlib.contextmanager
def as_a_migration(engine: Engine) -> Iterator[Connection]:
    """What a migration with `online = True` runs in, beside the transaction that keeps other migrations out."""
    with engine.begin() as guard:
        migrate.exclude_others(guard)
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        with connection, Operations.context(MigrationContext.configure(connection)):
            yield connection


@pytest.mark.parametrize("table", ["domains", "recipients"])
def test_an_index_is_built_while_others_write_the_table(
    engine: Engine, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table in ranges gets its index online as well. An index that is built a second time stays."""
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "100ms")
    monkeypatch.setattr(migrate, "PAUSE", (0.01, 0.02))

    def build() -> None:
        with as_a_migration(engine):
            create_index_online("ix_new", table, ["account_id", text("lower(uuid)" if in_ranges else "lower(name)")])

    in_ranges = table == "recipients"
    with ThreadPoolExecutor(1) as thread, engine.connect() as long_transaction:
        long_transaction.execute(text(f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE"))
        done = thread.submit(build)
        with engine.connect() as watching:
            wait_until(lambda: watching.execute(text(WAITING)).scalar_one() > 0, "it waits for the long transaction")
        with engine.begin() as another:
            another.execute(text(f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE"))
        assert not done.done()
        long_transaction.rollback()
        done.result()
    assert_is_valid(engine)
    build()
    assert_is_valid(engine)
    with as_a_migration(engine):
        drop_index_online("ix_new", table)


def assert_is_valid(engine: Engine) -> None:
    with engine.connect() as connection:
        valid = connection.execute(
            text("SELECT indisvalid FROM pg_index WHERE indexrelid::regclass::text LIKE 'ix_new%'")
        )
        assert set(valid.scalars()) == {True}


def test_what_an_interrupted_attempt_has_left_is_built_anew(engine: Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for name in "ab":
            connection.execute(text(DOMAIN.format(name)))
        with pytest.raises(Exception, match="duplicate"):
            connection.execute(text("CREATE UNIQUE INDEX CONCURRENTLY ix_new ON domains (account_id)"))
    with as_a_migration(engine):
        create_index_online("ix_new", "domains", ["name"])
    assert_is_valid(engine)
