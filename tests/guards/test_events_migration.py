"""Revision 0019 moves waiting events into rotating tables, and back again (docs/operations.md#migrations)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import orjson
import pytest
from sqlalchemy import create_engine, text

from app.db import migrate
from tests.conftest import BACKENDS
from tests.support.servers import scratch_database, short_folder

BEFORE, AFTER = "0018", "0019"
TIME = "2026-03-01 10:00:00.000000+00"
FAILED = "2026-03-01 11:00:00.000000+00"

ACCOUNT = """
INSERT INTO accounts (id, name, owner_confirmed, allowed_networks, creation_time, last_modified_time)
VALUES (1, 'Acme', :yes, '[]', :time, :time)
"""
WEBHOOK = """
INSERT INTO webhooks (id, account_id, url, creation_time, due_time, failures, batch_id, batch_events, first_failed_time,
    dropped_events) VALUES (:id, 1, :url, :time, :time, 0, :batch_id, :batch_events, :failed, 0)
"""
EVENT = "INSERT INTO events (id, account_id, webhook_id, payload) VALUES (:id, 1, :webhook_id, :payload)"
WEBHOOKS: dict[int, tuple[str | None, list[int] | None]] = {1: ("jti", [10, 12, 14]), 2: (None, None), 3: (None, None)}
"""Webhook -> its batch. Of the first one's, event 11 was committed after the batch was claimed."""
EVENTS = {10: 1, 11: 1, 12: 1, 13: 2, 14: 1, 15: 2, 16: 1}
"""Event -> its webhook."""


def rows(database_url: str, statement: str) -> list[tuple[Any, ...]]:
    engine = create_engine(database_url)
    try:
        with engine.begin() as connection:
            result = connection.execute(text(statement))
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        engine.dispose()


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of the previous revision, with a webhook that has a batch, one without a batch and one without
    events."""
    with ExitStack() as stack:
        if request.param == "postgresql":
            url = stack.enter_context(scratch_database(request.getfixturevalue("postgres")))
        else:
            url = f"sqlite:///{stack.enter_context(short_folder())}/tms.sqlite3"
        migrate.upgrade(url, BEFORE)
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text(ACCOUNT), {"time": TIME, "yes": True})
            for number, (batch_id, batch) in WEBHOOKS.items():
                listed = None if batch is None else orjson.dumps(batch).decode()
                one = {"id": number, "url": f"u{number}", "batch_id": batch_id, "batch_events": listed}
                connection.execute(text(WEBHOOK), {"time": TIME, "failed": FAILED if batch else None, **one})
            for number, webhook_id in EVENTS.items():
                connection.execute(text(EVENT), {"id": number, "webhook_id": webhook_id, "payload": f"p{number}"})
            if request.param == "postgresql":
                connection.execute(text("SELECT setval('events_id_seq', 900)"))
        engine.dispose()
        yield url


WAITING = """
SELECT events.webhook_id, payload, batch_id, events.id <= batch_end FROM events
JOIN webhooks ON webhooks.id = events.webhook_id AND events.id > position ORDER BY events.webhook_id, events.id
"""


def test_events_that_wait_keep_their_order_and_their_batch(database_url: str) -> None:
    failed = rows(database_url, "SELECT id, first_failed_time FROM webhooks ORDER BY id")
    migrate.upgrade(database_url, AFTER)
    assert rows(database_url, WAITING) == [
        *((1, payload, "jti", 1) for payload in ("p10", "p12", "p14")),
        *((1, payload, "jti", 0) for payload in ("p11", "p16")),
        *((2, payload, None, None) for payload in ("p13", "p15")),
    ]
    assert rows(database_url, "SELECT id, first_failed_time FROM webhooks ORDER BY id") == failed
    assert rows(database_url, "SELECT id, position, complete_to FROM webhooks ORDER BY id") == [
        *((1, 0, 0), (2, 0, 0), (3, 0, 0))
    ]


def test_an_id_that_was_given_is_not_given_again(database_url: str) -> None:
    migrate.upgrade(database_url, AFTER)
    highest = rows(database_url, "SELECT max(id) FROM events")[0][0]
    rows(database_url, "INSERT INTO events (slot, account_id, webhook_id, payload) VALUES (1, 1, 2, 'new')")
    ((given,),) = rows(database_url, "SELECT id FROM events WHERE payload = 'new'")
    assert given > (900 if database_url.startswith("postgresql") else highest)


def test_a_downgrade_brings_back_what_waits(database_url: str) -> None:
    migrate.upgrade(database_url, AFTER)
    done = "SELECT id FROM events WHERE payload = 'p13'"
    rows(database_url, f"UPDATE webhooks SET position = ({done}) WHERE id = 2")
    rows(database_url, "INSERT INTO events (slot, account_id, webhook_id, payload) VALUES (1, 1, 2, 'new')")
    rows(
        database_url, "INSERT INTO events (slot, account_id, webhook_id, payload) VALUES (1, 1, 77, 'of a deleted one')"
    )
    migrate.downgrade(database_url, BEFORE)
    waiting = rows(database_url, "SELECT id, webhook_id, payload FROM events ORDER BY webhook_id, id")
    assert [(webhook_id, payload) for _, webhook_id, payload in waiting] == [
        *((1, payload) for payload in ("p10", "p12", "p14", "p11", "p16")),
        *((2, payload) for payload in ("p15", "new")),
    ]
    batches = rows(database_url, "SELECT batch_id, batch_events FROM webhooks ORDER BY id")
    assert batches[1:] == [(None, None), (None, None)]
    listed = batches[0][1]
    assert (orjson.loads(listed) if isinstance(listed, str) else listed) == [number for number, _, _ in waiting[:3]]
    rows(database_url, "INSERT INTO events (account_id, webhook_id, payload) VALUES (1, 2, 'newer')")
    ((newer,),) = rows(database_url, "SELECT id FROM events WHERE payload = 'newer'")
    assert newer > max(number for number, _, _ in waiting)
    migrate.upgrade(database_url)
    assert [payload for _, payload, _, _ in rows(database_url, WAITING)] == [
        *("p10", "p12", "p14", "p11", "p16"),
        *("p15", "new", "newer"),
    ]
