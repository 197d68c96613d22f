"""A scrape, `flask status` and `flask top` cost the same however long the history is
(docs/monitoring/metrics.md#what-a-scrape-costs)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, text

from app.clock import now
from app.db.bulk import insert_rows
from app.db.due import DueAccounts
from app.db.models import Base, QueueEntry, Recipient, RecipientStep
from app.db.queue import SCHEDULED_QUEUE
from app.maintenance.figures import read_figures
from app.maintenance.overview import read_put_off
from app.maintenance.sweeps import SendQueueSweep
from app.sends.delivery.claim import claim
from app.sends.delivery.returning import ReturningMessages
from tests.databases.running import Alone, alone
from tests.support.databases import BACKENDS
from tests.support.plans import StatementRecorder, rows_read
from tests.support.tenants import unique

SETTLED = 2000
FEW = 5
"""Instructions by which SQLite finds that there is something behind the last row that it wants."""


@pytest.fixture(scope="module", params=BACKENDS)
def installation(request: pytest.FixtureRequest) -> Iterator[Alone]:
    """An installation with a message that is due, one that was deferred, and one whose entry has no type."""
    with alone(request.getfixturevalue("postgres") if request.param == "postgresql" else None) as made:
        made.add_recipient()
        later = made.add_recipient(due_time=now() + timedelta(hours=1))
        made.tenant.add(RecipientStep, recipient_id=later, time=now(), step="deferred", detail="451 later")
        with made.services.database.write() as transaction:
            transaction.execute(text("UPDATE send_queue SET attempts = 1"))
        made.add_event(now())
        yield made


def statements(installation: Alone) -> dict[str, Any]:
    """All that a scrape and the commands read."""
    with (
        StatementRecorder(installation.services.database.engine) as recorder,
        installation.services.database.read() as session,
    ):
        read_figures(session, installation.services.settings)
        assert [deferral.reply for deferral in read_put_off(session, now())] == ["451 later"]
    return recorder.statements


def work(installation: Alone, recorded: dict[str, Any]) -> dict[str, int]:
    """How much each of the statements reads now. The tables of a test are so small that PostgreSQL has to be kept from
    reading all of them."""
    with installation.services.database.engine.connect() as connection:
        if installation.services.database.is_postgresql:
            connection.exec_driver_sql("SET enable_seqscan = off")
        try:
            return {
                statement: rows_read(connection, statement, parameters, Base.metadata.tables)
                for statement, parameters in recorded.items()
            }
        finally:
            if installation.services.database.is_postgresql:
                connection.exec_driver_sql("RESET enable_seqscan")


def add_settled(installation: Alone, count: int) -> None:
    """Adds recipients of the same send that were delivered, with their steps."""
    with installation.services.database.read() as session:
        send_id = session.execute(text("SELECT max(send_id) FROM recipients")).scalar_one()
    shared = {"send_id": send_id, "group_id": 1, "type": "email", "values": {}, "open_type": "not_opened"}
    rows = [{**shared, "uuid": unique("uuid"), "state": "delivered", "creation_time": now()} for _ in range(count)]
    ids = installation.tenant.add_all(Recipient, rows)
    steps = [{"recipient_id": one_id, "time": now(), "step": "sent", "detail": "250 ok"} for one_id in ids]
    installation.tenant.add_all(RecipientStep, steps)


def test_nothing_that_is_settled_is_read(installation: Alone) -> None:
    recorded = statements(installation)
    before = work(installation, recorded)
    assert sum(before.values()) > 10, "it is counted"
    add_settled(installation, SETTLED)
    after = work(installation, recorded)
    assert [statement for statement, number in after.items() if number > before[statement] + FEW] == []


def looks_for_what_is_due(installation: Alone) -> dict[str, Any]:
    """All that the scheduler and a sender read to find what is due."""
    database = installation.services.database
    returning = ReturningMessages(database)
    with StatementRecorder(database.engine) as recorder:
        with database.read() as session:
            assert SendQueueSweep().finds_work(session)
            DueAccounts(SCHEDULED_QUEUE).look(session)
        returning.begin()
        assert returning.queue_slices() == 0
        with database.write() as transaction:
            assert len(claim(transaction, "worker", size=1, after=0)) == 1
            transaction.rollback()
    return {statement: given for statement, given in recorder.statements.items() if "UPDATE" not in statement}


def add_scheduled(installation: Alone, count: int) -> None:
    """Adds messages that are due tomorrow."""
    add_settled(installation, count)
    with installation.services.database.write() as transaction:
        added = select(Recipient.id).order_by(Recipient.id.desc()).limit(count)
        later = now() + timedelta(days=1)
        rows = [
            {"recipient_id": recipient_id, "due_time": later + timedelta(seconds=recipient_id)}
            for recipient_id in sorted(transaction.scalars(added))
        ]
        shared = {"state": "scheduled", "ready_time": later, "priority": "normal", "type": "email"}
        insert_rows(transaction, QueueEntry, rows, {**shared, "account_id": installation.tenant.id, "attempts": 0})
    if installation.services.database.is_postgresql:
        with installation.services.database.engine.begin() as connection:
            connection.exec_driver_sql("ANALYZE send_queue")


def test_nothing_that_is_scheduled_is_read(installation: Alone) -> None:
    """Neither by who looks for what is due, however many messages are scheduled (docs/scheduling.md). Those of another
    account are not, either, when some are due."""
    add_scheduled(installation, FEW)
    recorded = {**statements(installation), **looks_for_what_is_due(installation)}
    before = work(installation, recorded)
    add_scheduled(installation, SETTLED)
    after = work(installation, recorded)
    assert [statement for statement, number in after.items() if number > before[statement] + FEW] == []


def test_reading_the_settled_would_be_noticed(installation: Alone) -> None:
    add_settled(installation, SETTLED)
    counting = "SELECT count(*) FROM recipients WHERE state <> 'failed'"
    assert work(installation, {counting: ()})[counting] >= SETTLED
