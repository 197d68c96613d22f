"""Revision 0073 seals what is in the audit log, and leaves the log as it was when it is taken back
(docs/audit.md#seals)."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from app.audit.seals import seal_next
from app.audit.verify import verify
from app.db import migrate
from app.db.database import Database
from app.infrastructure.digests import new_digest_key
from tests.conftest import test_settings
from tests.guards.test_queue_migration import rows
from tests.support.servers import short_folder

BEFORE, AFTER = "0072", "0073"
ENTRY = """
INSERT INTO audit_entries (id, time, action, object, actor_kind, actor, changes, counts)
VALUES (:id, '2026-03-01 10:00:00.000000+00', 'list.updated', 'list', 'command', 'root', '[]', '{}')
"""
REPLACED = ENTRY.replace("INSERT", "INSERT OR REPLACE")
KEPT = ("SELECT * FROM audit_entries ORDER BY id", "SELECT * FROM digest_key")
KEY = "INSERT INTO digest_key (id, key) VALUES (1, :key)"


def test_existing_entries_are_sealed_and_stay_both_ways(database_url: str) -> None:
    migrate.upgrade(database_url, BEFORE)
    with short_folder() as folder:
        settings = test_settings(folder, DATABASE_URL=database_url)
    keys, engine, database = settings.secret_keys, create_engine(database_url), Database(database_url)
    try:
        with engine.begin() as connection:
            connection.execute(text(ENTRY), [{"id": number} for number in range(1, 6)])
            connection.execute(text(KEY), {"key": new_digest_key(keys[0])})
        before = [rows(database_url, one) for one in KEPT]
        migrate.upgrade(database_url)
        with database.write() as transaction:
            assert seal_next(transaction, keys, settled=4, most=10) == 4
        with engine.connect() as connection:
            found = verify(connection, settings)
        assert (found.sealed, found.waiting, found.breaks) == (4, 1, [])
        if engine.dialect.name == "sqlite":
            with pytest.raises(DBAPIError, match="never changed"), engine.begin() as connection:
                connection.execute(text(REPLACED), {"id": 1})
        migrate.downgrade(database_url, BEFORE)
        assert [rows(database_url, one) for one in KEPT] == before
        migrate.upgrade(database_url, AFTER)
        assert rows(database_url, "SELECT * FROM audit_seals") == []
    finally:
        database.close()
        engine.dispose()
