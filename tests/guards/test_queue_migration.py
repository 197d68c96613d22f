"""Revision 0015 moves unsettled recipients into the send queue, and back again (docs/operations.md#migrations)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from app.db import migrate
from tests.conftest import BACKENDS
from tests.support.old_rows import ACCOUNT, SEND
from tests.support.servers import scratch_database, short_folder

BEFORE, AFTER = "0014", "0015"
TIME = "2026-03-01 10:00:00.000000+00"
LATER = "2026-03-01 11:30:00.000000+00"

RECIPIENT = """
INSERT INTO recipients (id, uuid, account_id, send_id, group_id, type, email, "values", state, creation_time, due_time,
    lease_time, worker, attempts, open_type, rendered_bytes)
VALUES (:id, :uuid, 1, 1, 1, 'email', 'a@example.com', '{}', :state, :time, :due, :lease, :worker, :attempts,
    'not_opened', :rendered)
"""
COLUMNS = ("state", "attempts", "worker", "lease", "rendered")
RECIPIENTS = {
    1: ("queued", 0, None, None, None),
    2: ("queued", 3, None, None, 700),
    3: ("sending", 1, "w1", LATER, None),
    4: ("uncertain", 2, None, None, 900),
    5: ("delivered", 1, None, None, 800),
    6: ("bounced", 5, None, None, None),
}
"""Recipients of the previous revision."""


def rows(database_url: str, statement: str) -> list[tuple[Any, ...]]:
    engine = create_engine(database_url)
    try:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(statement))]
    finally:
        engine.dispose()


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of the previous revision, with recipients in every state."""
    with ExitStack() as stack:
        if request.param == "postgresql":
            url = stack.enter_context(scratch_database(request.getfixturevalue("postgres")))
        else:
            url = f"sqlite:///{stack.enter_context(short_folder())}/tms.sqlite3"
        migrate.upgrade(url, BEFORE)
        engine = create_engine(url)
        with engine.begin() as connection:
            shared = {"time": TIME, "due": LATER, "yes": True, "no": False}
            connection.execute(text(ACCOUNT), shared)
            connection.execute(text(SEND), shared)
            for number, values in RECIPIENTS.items():
                own = dict(zip(COLUMNS, values, strict=True))
                connection.execute(text(RECIPIENT), {**shared, "id": number, "uuid": f"uuid-{number}", **own})
        engine.dispose()
        yield url


def test_what_is_not_settled_moves_into_the_queue(database_url: str) -> None:
    old = "SELECT id, due_time, lease_time FROM recipients WHERE id < 5 ORDER BY id"
    times = rows(database_url, old)
    migrate.upgrade(database_url, AFTER)
    moved = "SELECT recipient_id, state, attempts, worker, rendered_bytes, account_id, priority FROM send_queue"
    assert rows(database_url, f"{moved} ORDER BY recipient_id") == [
        (1, "queued", 0, None, None, 1, "normal"),
        (2, "queued", 3, None, 700, 1, "normal"),
        (3, "sending", 1, "w1", None, 1, "normal"),
        (4, "uncertain", 2, None, 900, 1, "normal"),
    ]
    assert rows(database_url, "SELECT recipient_id, due_time, lease_time FROM send_queue ORDER BY 1") == times
    assert rows(database_url, "SELECT state, attempts FROM recipients ORDER BY id") == [
        *(("queued", 0), ("queued", 3), ("queued", 1), ("queued", 2)),
        *(("delivered", 1), ("bounced", 5)),
    ]
    assert rows(database_url, "SELECT priority FROM sends") == [("normal",)]


def test_a_downgrade_moves_it_back(database_url: str) -> None:
    state = "SELECT id, state, attempts, worker, lease_time, rendered_bytes FROM recipients ORDER BY id"
    due = "SELECT id, due_time FROM recipients WHERE id < 5 ORDER BY id"
    before = rows(database_url, state), rows(database_url, due)
    migrate.upgrade(database_url, AFTER)
    migrate.downgrade(database_url, BEFORE)
    assert (rows(database_url, state), rows(database_url, due)) == before
    engine = create_engine(database_url)
    assert "send_queue" not in inspect(engine).get_table_names()
    engine.dispose()
    migrate.upgrade(database_url)
    assert rows(database_url, "SELECT count(*) FROM send_queue") == [(4,)]
    assert rows(database_url, "SELECT count(*) FROM send_queue WHERE ready_time = due_time") == [(4,)]


def test_a_downgrade_holds_messages_whose_secret_values_it_takes(database_url: str) -> None:
    """Revision 0054: the release before would send them without the values."""
    migrate.upgrade(database_url, "0054")
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE send_queue SET secret_values = 'x' WHERE recipient_id = 1"))
    engine.dispose()
    states = "SELECT recipient_id, state, held_state FROM send_queue WHERE recipient_id < 3 ORDER BY recipient_id"
    migrate.downgrade(database_url, "0053")
    assert rows(database_url, states) == [(1, "held", "queued"), (2, "queued", None)]
    migrate.upgrade(database_url, "0054")
    assert rows(database_url, states) == [(1, "held", "queued"), (2, "queued", None)]
    assert rows(database_url, "SELECT secret_values FROM send_queue WHERE recipient_id = 1") == [(None,)]


PAUSE = """
INSERT INTO send_pauses (id, account_id, kind, paused_by, creation_time) VALUES (7, 1, 'account', 'cli', :time)
"""


def test_a_downgrade_holds_messages_that_are_paused(database_url: str) -> None:
    """Revision 0066: the release before would send them, or leave them for ever. They stay held until an operator
    releases them, also after the next upgrade, when their pause is forgotten."""
    migrate.upgrade(database_url, "0066")
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text(PAUSE), {"time": TIME})
        paused = "state = 'paused', pause_id = 7"
        connection.execute(text(f"UPDATE send_queue SET {paused} WHERE recipient_id < 3"))
        held = "state = 'held', held_state = 'uncertain'"
        connection.execute(text(f"UPDATE send_queue SET {held} WHERE recipient_id = 4"))
    of_row = "recipient_id, state, held_state, attempts, worker"
    states = f"SELECT {of_row} FROM send_queue ORDER BY recipient_id"
    times = "SELECT recipient_id, due_time, ready_time FROM send_queue ORDER BY recipient_id"
    before, expected = (
        rows(database_url, times),
        [
            (1, "held", "queued", 0, None),
            (2, "held", "queued", 3, None),
            (3, "sending", None, 1, "w1"),
            (4, "held", "uncertain", 2, None),
        ],
    )
    migrate.downgrade(database_url, "0065")
    assert (rows(database_url, states), rows(database_url, times)) == (expected, before)
    assert "send_pauses" not in inspect(engine).get_table_names()
    assert "pause_id" not in {column["name"] for column in inspect(engine).get_columns("send_queue")}
    engine.dispose()
    migrate.upgrade(database_url, "0066")
    assert (rows(database_url, states), rows(database_url, times)) == (expected, before)
    assert rows(database_url, "SELECT count(*), count(pause_id) FROM send_queue") == [(4, 0)]
    assert rows(database_url, "SELECT count(*) FROM send_pauses") == [(0,)]
