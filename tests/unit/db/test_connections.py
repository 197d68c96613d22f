"""What a session takes and gives back (app/db/database.py, app/db/engine.py)."""

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
from app.db.engine import LARGE, release_after
from app.db.models import Account
from app.db.prepared import PreparedStatement
from tests.support.tenants import Tenant

MARK = PreparedStatement(
    update(Account)
    .where(Account.id == bindparam("account_id"))
    .values(owner_email=bindparam("mark", type_=Account.owner_email.type))
)


def connection_of(session: Session) -> int:
    """Which of the driver's connections the session uses."""
    return id(session.connection().connection.driver_connection)


@pytest.mark.parametrize("large", [False, True])
def test_a_connection_that_has_carried_many_bytes_is_not_kept(tenant: Tenant, large: bool) -> None:
    """On PostgreSQL; SQLite is in the process."""
    database = Database(tenant.services.settings.database_url, pool_size=1)
    try:
        with database.write() as transaction:
            first = transaction.connection().connection.driver_connection
            release_after(transaction, LARGE + large)
        with database.read() as session:
            second = session.connection().connection.driver_connection
            assert session.execute(select(Account.id).where(Account.id == tenant.id)).one() == (tenant.id,)
        assert (first is second) != (large and database.is_postgresql)
    finally:
        database.close()


def test_only_a_writing_session_is_a_transaction(tenant: Tenant) -> None:
    """On PostgreSQL, where both use the same connection one after the other."""
    database = Database(tenant.services.settings.database_url, pool_size=1)
    if not database.is_postgresql:
        pytest.skip("SQLite reads in transactions, too")
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


def test_a_reading_session_keeps_one_connection_for_all_ways_to_read(tenant: Tenant) -> None:
    """By the ORM, by the connection and by the driver; and gives it back."""
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


def test_a_reading_session_sees_what_is_committed_meanwhile(tenant: Tenant) -> None:
    """On PostgreSQL its statements are transactions of their own; on SQLite they are one."""
    database = tenant.services.database
    with database.read() as session:
        named = select(Account.name).where(Account.id == tenant.id)
        before = session.execute(named).scalar_one()
        with database.write() as transaction:
            transaction.get_one(Account, tenant.id).name = "Renamed"
        assert session.execute(named).scalar_one() == ("Renamed" if database.is_postgresql else before)


def marks(tenant: Tenant) -> tuple[str | None, ...]:
    """What the three ways to write have left."""
    with tenant.services.database.read() as session:
        account = session.get_one(Account, tenant.id)
        return account.owner_email, account.default_from_name, account.default_from_address


def write_marks(transaction: Session, tenant: Tenant, mark: str) -> None:
    """By a kept statement, by the ORM and by the connection."""
    transaction.get_one(Account, tenant.id).default_from_name = mark
    assert MARK.run(transaction, account_id=tenant.id, mark=mark) == 1
    of_tenant = update(Account).where(Account.id == tenant.id)
    transaction.connection().execute(of_tenant.values(default_from_address=mark))


def write(tenant: Tenant, mark: str, error: Exception | None = None) -> None:
    with tenant.services.database.write() as transaction:
        write_marks(transaction, tenant, mark)
        if error:
            raise error


def test_a_transaction_is_one_for_all_ways_to_write(tenant: Tenant) -> None:
    before = marks(tenant)
    with pytest.raises(RuntimeError):
        write(tenant, "lost", RuntimeError())
    assert marks(tenant) == before
    write(tenant, "kept")
    assert marks(tenant) == ("kept", "kept", "kept")


def test_what_the_orm_fails_to_write_at_the_commit_undoes_the_whole_transaction(tenant: Tenant) -> None:
    before = marks(tenant)
    released: list[str] = []

    def write_what_fails() -> None:
        with tenant.services.database.write() as transaction:
            transaction.after_commit(lambda: released.append("yes"))
            write_marks(transaction, tenant, "lost")
            transaction.get_one(Account, tenant.id).name = None  # type: ignore[assignment]

    with pytest.raises(IntegrityError):
        write_what_fails()
    assert (marks(tenant), released) == (before, [])


def test_after_a_rollback_the_next_statement_begins_another_transaction(tenant: Tenant) -> None:
    before = marks(tenant)
    with tenant.services.database.write() as transaction:
        write_marks(transaction, tenant, "lost")
        transaction.flush()
        transaction.rollback()
        assert MARK.run(transaction, account_id=tenant.id, mark="kept") == 1
        if tenant.services.database.is_postgresql:
            assert marks(tenant) == before
    assert marks(tenant) == ("kept", *before[1:])


def test_a_new_sqlite_file_that_another_process_writes_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To change its mode SQLite needs the file alone, and gives up at once where somebody writes it."""
    path = tmp_path / "new.sqlite3"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE taken (id)")
    other.execute("BEGIN IMMEDIATE")
    other.execute("SELECT * FROM taken").fetchall()
    monkeypatch.setattr("app.db.engine.time.sleep", lambda _: other.execute("COMMIT"))
    database = Database(f"sqlite:///{path}")
    try:
        with database.read() as session:
            assert session.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert not other.in_transaction, "nobody waited"
    finally:
        database.close()
        other.close()
