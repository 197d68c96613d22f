"""A worker that dies at any moment: each step is carried out once
(docs/decisions/021-automations-without-leases.md)."""

from __future__ import annotations

from collections import Counter

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError

from app.db.models import AutomationPassedStep, AutomationRun, Recipient
from app.runs.work import advance_due
from app.sends.delivery.drain import drain
from tests.jobs.automations.conftest import ADVANCED, Story
from tests.support.killed import killed_at

URL = "https://called.example/in"
STEPS = [
    {"name": "mark", "set": {"plan": "gold"}},
    {"name": "hello", "send": "Hello"},
    {"name": "a minute", "wait": "1 minute"},
    {"name": "is gold", "branch": {"if": "plan:EXACTLY:gold"}, "then": [{"name": "again", "send": "Again"}]},
    {"name": "tell", "call": URL},
    {"name": "out", "unsubscribe": "all"},
]


@pytest.fixture
def automation_id(story: Story) -> int:
    """An automation whose steps do everything that steps can."""
    for name in ("Hello", "Again"):
        story.tenant.add_message(name=name, subject=name)
    story.add_webhook(URL)
    return story.automation(**ADVANCED, steps=STEPS)


def messages_and_steps(story: Story) -> tuple[int, int]:
    """How many messages there are, and how many steps that say that they have sent one."""
    with story.worker.database.read() as session:
        messages = session.scalar(select(func.count()).where(Recipient.account_id == story.tenant.id))
        sent = AutomationPassedStep.recipient_id.is_not(None)
        steps = session.scalar(select(func.count()).where(AutomationPassedStep.account_id == story.tenant.id, sent))
    return messages or 0, steps or 0


def test_a_worker_killed_at_any_of_its_statements_leaves_nothing_half_done(story: Story, automation_id: int) -> None:
    contacts = [story.contact() for _ in range(3)]
    for number in range(1, 400):
        with killed_at(story.worker.database.engine, number):
            if advance_due(story.worker) == 0 and all(run.state == "ended" for run in story.runs(automation_id)):
                break
        messages, steps = messages_and_steps(story)
        assert messages == steps
        if messages > len(story.mails()):
            drain(story.worker)
        story.calendar.move(seconds=30)
    story.work()
    assert story.states(automation_id) == [("ended", "completed")] * 3
    assert messages_and_steps(story) == (6, 6)
    assert sorted(Counter(story.mails()).values()) == [1] * 6
    assert len(story.events_of("called")) == 3
    for contact_id in contacts:
        assert [step for step, _, _ in story.passed(contact_id)] == [
            *("mark", "hello", "a minute", "is gold", "again", "tell", "out")
        ]


def test_a_run_that_was_put_back_carries_out_nothing_twice(story: Story, automation_id: int) -> None:
    story.contact()
    story.work()
    with story.worker.database.write() as transaction:
        back = update(AutomationRun).where(AutomationRun.automation_id == automation_id)
        transaction.execute(back.values(state="waiting", step="hello", step_time=None, due_time=story.calendar.moment))
    story.work()
    assert messages_and_steps(story) == (1, 1)
    (run,) = story.runs(automation_id)
    assert run.step == "a minute"


def test_the_database_refuses_a_step_that_was_passed_before(story: Story, automation_id: int) -> None:
    story.contact()
    story.work()
    (run,) = story.runs(automation_id)
    passed = {"run_id": run.id, "step_id": story.steps["hello"], "time": story.calendar.moment, "result": "done"}
    with pytest.raises(IntegrityError):
        story.rows.add(AutomationPassedStep, **passed)
