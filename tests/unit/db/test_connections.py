"""Connections of sessions (app/db/database.py, app/db/engine.py)."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from psycopg.pq import TransactionStatus
from sqlalchemy import bindparam, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.db.database import Database
from app.db.engine import MAX_ANSWER_BYTES, release_after
from app.db.models import Account
from app.db.prepared import PreparedStatement
from tests.support.tenants import Tenant

MARK = PreparedStatement(
    update(Account)
    .where(Account.id == bindparam("account_id"))
    .values(owner_email=bindparam("mark", type_=Account.owner_email.type))
)


def connection_of(session: Session) -> int:
    """The driver connection that the session uses."""
    return id(session.connection().connection.driver_connection)


@pytest.mark.parametrize("large", [False, True])
def test_a_connection_that_has_carried_many_bytes_is_closed(tenant: Tenant, large: bool) -> None:
    """On PostgreSQL; SQLite runs in the process."""
    database = Database(tenant.services.settings.database_url, pool_size=1)
    try:
        with database.write() as transaction:
            first = transaction.connection().connection.driver_connection
            release_after(transaction, MAX_ANSWER_BYTES + large)
        with database.read() as session:
            second = session.connection().connection.driver_connection
            assert session.execute(select(Account.id).where(Account.id == tenant.id)).one() == (tenant.id,)
        assert (first is second) != (large and database.is_postgresql)
    finally:
        database.close()


@pytest.mark.postgresql("SQLite reads in transactions, too")
def test_only_a_writing_session_is_a_transaction(tenant: Tenant) -> None:
    """On PostgreSQL, where both use the same connection one after the other."""
    database = Database(tenant.services.settings.database_url, pool_size=1)
    seen = []
    try:
        for _ in range(2):
            with database.read() as session:
                seen.append(("read", *state_of(session)))
            with database.write() as transaction:
                seen.append(("write", *state_of(transaction)))
            with suppress(ZeroDivisionError), database.write() as transaction:
                seen.append(("failed", *state_of(transaction)))
                raise ZeroDivisionError
        assert len({connection for *_, connection in seen}) == 1
        assert [(what, status) for what, status, _ in seen] == [
            *(("read", TransactionStatus.IDLE), ("write", TransactionStatus.INTRANS)),
            ("failed", TransactionStatus.INTRANS),
        ] * 2
        with database.write() as transaction:
            assert transaction.scalar(text("SHOW transaction_isolation")) == "read committed"
    finally:
        database.close()


def state_of(session: Session) -> tuple[TransactionStatus, int]:
    """Whether a statement has begun a transaction, and the connection."""
    session.execute(text("SELECT 1"))
    driver = cast(Any, session.connection().connection.driver_connection)
    return TransactionStatus(driver.info.transaction_status), id(driver)


def test_a_reading_session_uses_one_connection_for_all_interfaces(tenant: Tenant) -> None:
    """The ORM, the connection and the driver; it returns the connection to the pool."""
    database = Database(tenant.services.settings.database_url, pool_size=1)
    try:
        for _ in range(2):
            with database.read() as session:
                first = connection_of(session)
                assert session.execute(select(Account.id).where(Account.id == tenant.id)).one() == (tenant.id,)
                assert session.connection().execute(text("SELECT 1")).scalar() == 1
                assert session.get_one(Account, tenant.id).id == tenant.id
                assert connection_of(session) == first
    finally:
        database.close()


def test_a_reading_session_sees_rows_committed_meanwhile(tenant: Tenant) -> None:
    """On PostgreSQL each of its statements is a transaction; on SQLite they are one."""
    database = tenant.services.database
    with database.read() as session:
        named = select(Account.name).where(Account.id == tenant.id)
        before = session.execute(named).scalar_one()
        with database.write() as transaction:
            transaction.get_one(Account, tenant.id).name = "Renamed"
        assert session.execute(named).scalar_one() == ("Renamed" if database.is_postgresql else before)


def stored_rows(tenant: Tenant) -> tuple[str | None, ...]:
    """The rows written through the three interfaces."""
    with tenant.services.database.read() as session:
        account = session.get_one(Account, tenant.id)
        return account.owner_email, account.default_from_name, account.default_from_address


def write_rows(transaction: Session, tenant: Tenant, mark: str) -> None:
    """Writes by a prepared statement, by the ORM and by the connection."""
    transaction.get_one(Account, tenant.id).default_from_name = mark
    assert MARK.run(transaction, account_id=tenant.id, mark=mark) == 1
    account_update = update(Account).where(Account.id == tenant.id)
    transaction.connection().execute(account_update.values(default_from_address=mark))


def write(tenant: Tenant, mark: str, error: Exception | None = None) -> None:
    with tenant.services.database.write() as transaction:
        write_rows(transaction, tenant, mark)
        if error:
            raise error


def test_a_transaction_covers_all_interfaces(tenant: Tenant) -> None:
    before = stored_rows(tenant)
    with pytest.raises(RuntimeError):
        write(tenant, "lost", RuntimeError())
    assert stored_rows(tenant) == before
    write(tenant, "kept")
    assert stored_rows(tenant) == ("kept", "kept", "kept")


def test_an_orm_failure_at_the_commit_rolls_the_whole_transaction_back(tenant: Tenant) -> None:
    before = stored_rows(tenant)
    released: list[str] = []

    def write_what_fails() -> None:
        with tenant.services.database.write() as transaction:
            transaction.after_commit(lambda: released.append("yes"))
            write_rows(transaction, tenant, "lost")
            transaction.get_one(Account, tenant.id).name = None  # type: ignore[assignment]

    with pytest.raises(IntegrityError):
        write_what_fails()
    assert (stored_rows(tenant), released) == (before, [])


def test_after_a_rollback_the_next_statement_begins_another_transaction(tenant: Tenant) -> None:
    before = stored_rows(tenant)
    with tenant.services.database.write() as transaction:
        write_rows(transaction, tenant, "lost")
        transaction.flush()
        transaction.rollback()
        assert MARK.run(transaction, account_id=tenant.id, mark="kept") == 1
        if tenant.services.database.is_postgresql:
            assert stored_rows(tenant) == before
    assert stored_rows(tenant) == ("kept", *before[1:])


def test_opening_a_new_sqlite_file_waits_for_another_process_that_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To change its journal mode SQLite needs exclusive access, and fails at once while another process writes."""
    path = tmp_path / "new.sqlite3"
    other_connection = sqlite3.connect(path, isolation_level=None)
    other_connection.execute("CREATE TABLE taken (id)")
    other_connection.execute("BEGIN IMMEDIATE")
    other_connection.execute("SELECT * FROM taken").fetchall()
    monkeypatch.setattr("app.db.engine.time.sleep", lambda _: other_connection.execute("COMMIT"))
    database = Database(f"sqlite:///{path}")
    try:
        with database.read() as session:
            assert session.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert not other_connection.in_transaction, "nobody waited"
    finally:
        database.close()
        other_connection.close()
