"""What happens to a contact or a message while its run is being advanced is neither missed nor done twice
(docs/decisions/021-automations-without-leases.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from sqlalchemy import update

from app.db.due import look_at_all
from app.db.models import AutomationRun
from app.db.queue import RUN_QUEUE, lock_due
from app.runs.advance import advance
from app.runs.work import advance_due
from tests.jobs.automations.conftest import ADVANCED, Story
from tests.support.races import meanwhile
from tests.support.servers import PATIENCE

STEPS = [
    {"name": "hello", "send": "Hello"},
    {
        "name": "read it",
        "branch": {"step": "hello", "did": "opened", "within": "2 days"},
        "then": [{"name": "thanks", "send": "Hello"}],
    },
]


@pytest.fixture
def automation_id(story: Story) -> int:
    """An automation that waits for an open."""
    story.tenant.add_message(name="Hello")
    return story.automation(**ADVANCED, steps=STEPS)


@contextmanager
def while_advancing(story: Story, work: Callable[[], object]) -> Iterator[None]:
    """Does the work between what a worker does with the runs that are due, and the end of its transaction."""
    with story.worker.database.write() as transaction:
        moment = story.calendar.moment
        locked = lock_due(RUN_QUEUE, transaction, look_at_all(RUN_QUEUE, transaction, moment), moment, 10)
        assert locked
        advance(transaction, [run.id for run in locked])
        with meanwhile(story.worker, work):
            transaction.commit()
    yield


def test_an_open_that_is_recorded_while_its_run_is_looked_at_ends_the_wait(story: Story, automation_id: int) -> None:
    contact_id = story.contact()
    story.work()
    with story.worker.database.write() as transaction:
        due = update(AutomationRun).where(AutomationRun.automation_id == automation_id)
        transaction.execute(due.values(due_time=story.calendar.moment))
    (hello,) = story.recipients(contact_id)
    with while_advancing(story, partial(story.opens, hello)):
        assert [run.due_time for run in story.runs(automation_id)] == [story.calendar.moment]
    story.work()
    assert [step for step, _, _ in story.passed(contact_id)] == ["hello", "read it", "thanks"]


def test_a_contact_that_is_deleted_while_its_run_is_advanced_ends_the_run(story: Story, automation_id: int) -> None:
    contact_id = story.contact()
    path = f"/v1/lists/{story.list_id}/contacts/{contact_id}"
    with while_advancing(story, partial(story.tenant.api.delete, path)):
        assert story.states(automation_id) == [("ended", "contact deleted")]
    story.work()
    assert story.mails() == []


def test_two_workers_share_what_is_due(story: Story, automation_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second passes over what the first has locked, and ends at once when nothing else is due."""
    monkeypatch.setattr("app.runs.work.TIME_SLICE", 2 * PATIENCE)
    for _ in range(5):
        story.contact()
    with while_advancing(story, partial(advance_due, story.worker)):
        assert [run.step for run in story.runs(automation_id)] == ["read it"] * 5
    story.work()
    assert len(story.mails()) == 5
