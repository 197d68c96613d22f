"""What a process remembers of due runs (docs/decisions/021-automations-without-leases.md). The other tests of this
folder have their runs advanced by such a process, too."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from app.db.due import DueAccounts, look_at_all
from app.db.queue import RUN_QUEUE
from app.maintenance.sweeps import RunSweep
from tests.jobs.automations.conftest import ADVANCED, Story
from tests.support.statements import StatementCounter
from tests.support.tenants import new_email

WAIT = [{"name": "a day", "wait": "1 day"}]


@pytest.fixture
def automation_id(story: Story) -> int:
    """An automation that waits for a day."""
    return story.automation(**ADVANCED, steps=WAIT)


def finds_work(story: Story, sweep: RunSweep) -> bool:
    with story.worker.database.read() as session:
        return sweep.finds_work(session)


def test_a_scheduler_finds_what_falls_due_after_its_only_look_at_all_runs(story: Story, automation_id: int) -> None:
    sweep = RunSweep(full_share=1e-9)
    assert not finds_work(story, sweep)
    story.contact()
    assert finds_work(story, sweep)
    assert finds_work(story, sweep)
    story.work()
    assert not finds_work(story, sweep)
    story.calendar.move(hours=23)
    assert not finds_work(story, sweep)
    story.calendar.move(hours=1, days=3)
    assert finds_work(story, sweep)
    story.work()
    assert not finds_work(story, sweep)


def test_a_process_goes_on_behind_what_it_has_advanced(
    story: Story, automation_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.runs.work.chunk_size", lambda _session: 2)
    for _ in range(5):
        story.contact()
    story.work()
    story.calendar.move(days=1)
    due = DueAccounts(RUN_QUEUE, full_share=1e-9)
    with story.worker.database.read() as session:
        due.look(session)
        positions = due.next_accounts(0, 10)
        assert positions == {story.tenant.id: look_at_all(RUN_QUEUE, session, story.calendar.moment)[story.tenant.id]}
    story.due = due
    story.work()
    assert story.states(automation_id) == [("ended", "completed")] * 5


ADVANCED_RUNS = 2000


def pages_read(story: Story, sweep: RunSweep) -> int:
    """The pages that the looks of the sweep for due runs read, when they are executed again; not those of the table of
    automations, in which those of other tests are, too."""
    with StatementCounter(story.worker.database.engine) as counter:
        assert not finds_work(story, sweep)
    pages = 0
    with story.worker.database.read() as session:
        for sent in (
            sent_statement for sent_statement in counter.sent if "automation_runs" in sent_statement.statement
        ):
            explained = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sent.statement}"
            (plan,) = session.connection().exec_driver_sql(explained, sent.parameters).scalar_one()
            pages += plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
    return pages


@pytest.mark.postgresql("SQLite removes entries at once")
def test_a_held_snapshot_makes_the_looks_of_a_scheduler_no_slower(story: Story, automation_id: int) -> None:
    """PostgreSQL keeps the index entries of runs that were advanced while a snapshot may see them."""
    database = story.worker.database
    with database.write() as transaction:
        transaction.execute(text("TRUNCATE automation_runs CASCADE"))  # pages of other tests are not read
    people = [{"email": new_email()} for _ in range(ADVANCED_RUNS // 2)]
    for half in (people, [{"email": new_email()} for _ in people]):
        path = f"/v1/lists/{story.list_id}/contacts"
        assert story.tenant.api.post(path, {"contacts": half}).status_code == 204
    sweep = RunSweep(full_share=1e-9)
    with database.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        connection.execute(text("SELECT 1"))
        assert finds_work(story, sweep)
        story.advance()
        story.calendar.move(minutes=1)
        assert not finds_work(story, sweep)
        story.calendar.move(minutes=1)
        assert pages_read(story, sweep) < 20 < pages_read(story, RunSweep())
    assert story.states(automation_id) == [("waiting", "a day")] * ADVANCED_RUNS
