"""Visits are written after the response (docs/tracking.md#asynchronous-recording)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import update

from app.db.models import Recipient
from app.services import Services
from app.tracking import recorder
from app.tracking.devices import Client
from app.tracking.recorder import Recorder
from app.tracking.visits import Visit, visit_of
from tests.support.rows import Rows
from tests.support.servers import PATIENCE, wait_until


@pytest.fixture
def rows(services: Services, account_id: int) -> Rows:
    return Rows(services, account_id)


@pytest.fixture
def visits(services: Services) -> Iterator[Recorder]:
    recorder = Recorder(services.database)
    yield recorder
    recorder.close()


def visit(rows: Rows, recipient_id: int, agent: str = "Thunderbird") -> Visit:
    return visit_of(rows.services.settings, recipient_id, Client(agent, machine=False), None, None)


def opened(rows: Rows, ids: list[int]) -> list[int]:
    """The number of timeline steps of each recipient."""
    return [len(rows.steps(recipient_id)) for recipient_id in ids]


def test_a_process_that_ends_in_order_writes_its_queued_visits(rows: Rows, visits: Recorder) -> None:
    ids = rows.add_send([f"{number}@a.example" for number in range(300)])
    for recipient_id in ids:
        visits.put(visit(rows, recipient_id))
    visits.close(30)
    assert opened(rows, ids) == [1] * 300
    assert rows.group_of(ids[0]).opened == 300


def test_a_visit_that_cannot_be_written_delays_no_other(
    rows: Rows, visits: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    ids = rows.add_send(["a@a.example", "b@a.example"])
    with rows.services.database.write() as transaction:
        transaction.execute(update(Recipient).where(Recipient.id == ids[0]).values(attempts=0))
        visits.put(visit(rows, ids[0], "half a surrogate \ud800"))
        visits.put(visit(rows, ids[0]))
        visits.put(visit(rows, ids[1]))
    assert visits.flush(PATIENCE)
    assert opened(rows, ids) == [1, 1]
    assert "cannot record that a recipient opened" in caplog.text


def test_queued_visits_are_limited_and_one_recipient_does_not_displace_others(
    rows: Rows, visits: Recorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder, "MAX_WAITING_OF_RECIPIENT", 3)
    monkeypatch.setattr(recorder, "MAX_WAITING_VISITS", 6)
    ids = rows.add_send([f"{number}@a.example" for number in range(4)])
    with rows.services.database.write() as transaction:
        transaction.execute(update(Recipient).where(Recipient.id.in_(ids)).values(attempts=0))
        visits.put(visit(rows, ids[0]))
        wait_until(lambda: not visits._waiting, "the first is being written, and waits for the test")
        for number in range(5):
            visits.put(visit(rows, ids[1], str(number)))
        for recipient_id in ids[2:]:
            visits.put(visit(rows, recipient_id))
        visits.put(visit(rows, ids[3], "one too many"))
    assert visits.flush(PATIENCE)
    assert opened(rows, ids) == [1, 3, 1, 1]
    visits.put(visit(rows, ids[0], "another"))
    assert visits.flush(PATIENCE)
    assert "3 visits were lost" in caplog.text


def test_visits_are_kept_while_the_database_is_away(
    rows: Rows, visits: Recorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder, "RETRY_DELAY", 0.01)
    database = rows.services.database
    (recipient_id,) = rows.add_send(["a@a.example"])
    url = "postgresql+psycopg://nobody@127.0.0.1:1/none" if database.is_postgresql else "sqlite:////nowhere/none"
    away = Recorder(type(database)(url))
    away.put(visit(rows, recipient_id))
    wait_until(lambda: "1 visits wait: the database is unavailable" in caplog.text, "it was tried")
    away._database = database  # the database is available again
    assert away.flush(PATIENCE)
    away.close()
    assert opened(rows, [recipient_id]) == [1]


def test_visits_that_cannot_be_written_before_the_end_of_the_process_are_counted_in_the_log(
    rows: Rows, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder, "RETRY_DELAY", 0.01)
    monkeypatch.setattr(recorder, "SHUTDOWN_RETRY_DELAY", 0.01)
    database = rows.services.database
    ids = rows.add_send(["a@a.example", "b@a.example"])
    url = "postgresql+psycopg://nobody@127.0.0.1:1/none" if database.is_postgresql else "sqlite:////nowhere/none"
    away = Recorder(type(database)(url))
    for recipient_id in ids:
        away.put(visit(rows, recipient_id))
    wait_until(lambda: "the database is unavailable" in caplog.text, "it was tried")
    thread = away._thread
    away.close(0)
    assert thread is not None
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert "2 visits were not recorded before the end of the process" in caplog.text


def test_a_visit_of_a_deleted_recipient_is_dropped(rows: Rows, visits: Recorder) -> None:
    (recipient_id,) = rows.add_send(["a@a.example"])
    visits.put(replace(visit(rows, recipient_id), recipient_id=2**62))
    visits.put(visit(rows, recipient_id))
    assert visits.flush(PATIENCE)
    assert opened(rows, [recipient_id]) == [1]
