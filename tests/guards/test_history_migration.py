"""Revision 0021 divides the history into ranges on PostgreSQL, and joins it again (docs/operations.md#migrations)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import IntegrityError

from app.db import migrate
from tests.conftest import BACKENDS
from tests.support.old_rows import ACCOUNT, SEND
from tests.support.servers import scratch_database, short_folder

BEFORE, AFTER = "0020", "0021"
TIME = "2026-03-01 10:00:00.000000+00"
SPAN = 1_000_000_000

RECIPIENT = """
INSERT INTO recipients (uuid, account_id, send_id, group_id, type, email, "values", state, creation_time, attempts,
    open_type, gateway_id)
VALUES (:uuid, 1, 1, 1, 'email', 'a@example.com', '{}', 'delivered', :time, 2, 'not_opened', 'g')
"""
STEP = "INSERT INTO recipient_steps (account_id, recipient_id, time, step) VALUES (1, :recipient, :time, 'sent')"
SHARED = {"time": TIME, "yes": True, "no": False}
ROWS = "SELECT * FROM recipients ORDER BY uuid", "SELECT * FROM recipient_steps ORDER BY id"
INDEXES = "SELECT indexdef FROM pg_indexes WHERE tablename = :table ORDER BY indexdef"
CONSTRAINTS = (
    "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = CAST(:table AS regclass) "
    "ORDER BY conname"
)


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of the revision before, with three recipients and a step of each."""
    with ExitStack() as stack:
        if request.param == "postgresql":
            url = stack.enter_context(scratch_database(request.getfixturevalue("postgres")))
        else:
            url = f"sqlite:///{stack.enter_context(short_folder())}/tms.sqlite3"
        migrate.upgrade(url, BEFORE)
        with connected(url) as connection:
            connection.execute(text(ACCOUNT), SHARED)
            connection.execute(text(SEND), SHARED)
            for number in (1, 2, 3):
                add(connection, f"uuid-{number}", number)
        yield url


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def add(connection: Connection, uuid: str, recipient_id: int) -> None:
    connection.execute(text(RECIPIENT.replace(":time", f"'{TIME}'").replace(":uuid", f"'{uuid}'")))
    connection.execute(text(STEP), {**SHARED, "recipient": recipient_id})


def content(url: str) -> list[list[tuple[Any, ...]]]:
    with connected(url) as connection:
        return [[tuple(row) for row in connection.execute(text(statement))] for statement in ROWS]


def structure(url: str) -> list[list[tuple[Any, ...]]]:
    """Indexes and constraints of both tables."""
    with connected(url) as connection:
        found = [
            connection.execute(text(statement), {"table": table})
            for table in ("recipients", "recipient_steps")
            for statement in (INDEXES, CONSTRAINTS)
        ]
        return [[tuple(row) for row in rows] for rows in found]


def test_all_rows_are_there_above_and_below(database_url: str) -> None:
    before = content(database_url)
    assert [len(rows) for rows in before] == [3, 3]
    migrate.upgrade(database_url, AFTER)
    assert content(database_url) == before
    migrate.downgrade(database_url, BEFORE)
    assert content(database_url) == before


def test_new_rows_follow_those_that_were_there(database_url: str) -> None:
    migrate.upgrade(database_url, AFTER)
    with connected(database_url) as connection:
        add(connection, "uuid-4", 4)
    migrate.downgrade(database_url, BEFORE)
    with connected(database_url) as connection:
        add(connection, "uuid-5", 5)
        assert list(connection.execute(text("SELECT id FROM recipients ORDER BY id")).scalars()) == [1, 2, 3, 4, 5]
    steps = content(database_url)[1]
    assert [row[0] for row in steps] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_the_ranges_of_several_months_become_one_table_again(database_url: str) -> None:
    indexes = structure(database_url)
    migrate.upgrade(database_url, AFTER)
    with connected(database_url) as connection:
        for number in (1, 2):
            connection.execute(text(f"SELECT setval('recipients_id_seq', {number * SPAN}, false)"))
            add(connection, f"uuid-of-{number}", number * SPAN)
        assert connection.execute(text("SELECT count(*) FROM recipients_r0")).scalar() == 3
        assert connection.execute(text("SELECT count(*) FROM recipient_steps_r2")).scalar() == 1
    before = content(database_url)
    migrate.downgrade(database_url, BEFORE)
    assert content(database_url) == before
    assert structure(database_url) == indexes
    with connected(database_url) as connection:
        assert not [name for name in inspect(connection).get_table_names() if "_r" in name and name[-1].isdigit()]
    with pytest.raises(IntegrityError, match="fk_recipient_steps_recipient_id"), connected(database_url) as connection:
        connection.execute(text(STEP), {**SHARED, "recipient": 99})


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_table_beyond_the_first_range_is_one_range_up_to_the_next_start(database_url: str) -> None:
    with connected(database_url) as connection:
        connection.execute(text(f"SELECT setval('recipients_id_seq', {5 * SPAN + 7}, false)"))
        add(connection, "uuid-far", 5 * SPAN + 7)
    migrate.upgrade(database_url, AFTER)
    bounds = "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname ~ '^recipients_r[0-9]+$' ORDER BY oid"
    with connected(database_url) as connection:
        assert list(connection.execute(text(bounds)).scalars()) == [
            "FOR VALUES FROM (MINVALUE) TO ('6000000000')",
            *(f"FOR VALUES FROM ('{number * SPAN}') TO ('{(number + 1) * SPAN}')" for number in (6, 7, 8)),
        ]
