"""What a session takes and gives back (app/db/database.py, app/db/engine.py)."""

from __future__ import annotations

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from app.db.database import Database
from app.db.engine import LARGE, release_after
from app.db.models import Account
from tests.support.tenants import Tenant


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
