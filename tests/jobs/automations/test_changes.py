"""Messages and automations that change while runs wait (docs/automation-runs.md#versions)."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import delete, update

from app.automations.parse import read_definition
from app.db.models import Automation, Message
from app.runs.define import update_automation
from tests.jobs.automations.conftest import ADVANCED, Story

WAIT = {"name": "two days", "wait": "2 days"}


def steps(*messages: str) -> list[dict[str, Any]]:
    """A wait, and then these messages."""
    return [WAIT, *({"name": f"send {message}", "send": message} for message in messages)]


@pytest.fixture
def automation_id(story: Story) -> int:
    """An automation in which a contact waits."""
    for name in ("First", "Second"):
        story.tenant.add_message(name=name, subject=name)
    made = story.automation(**ADVANCED, name="Series", steps=steps("First"))
    story.contact()
    story.work()
    return made


def new_version(story: Story, automation_id: int, *, move: bool) -> None:
    document = {**ADVANCED, "name": "Series", "list": str(story.list_id), "steps": steps("Second")}
    with story.worker.database.write() as transaction:
        automation = transaction.get_one(Automation, automation_id)
        assert update_automation(transaction, automation, read_definition(document), move=move).changed


def subjects_after_the_wait(story: Story) -> list[str]:
    story.calendar.move(days=2)
    story.work()
    return [subject for _, subject in story.mails()]


def test_a_message_is_sent_as_it_is_when_its_step_comes(story: Story, automation_id: int) -> None:
    with story.worker.database.write() as transaction:
        transaction.execute(update(Message).where(Message.name == "First").values(subject="Changed"))
    assert subjects_after_the_wait(story) == ["Changed"]


def test_a_message_that_was_deleted_is_a_skipped_step(story: Story, automation_id: int) -> None:
    with story.worker.database.write() as transaction:
        transaction.execute(delete(Message).where(Message.account_id == story.tenant.id))
    assert subjects_after_the_wait(story) == []
    (run,) = story.runs(automation_id)
    assert story.passed(run.contact_id)[1:] == [("send First", "skipped", "invalid_id")]
    assert run.reason == "completed"


@pytest.mark.parametrize(("move", "sent"), [(False, "First"), (True, "Second")])
def test_a_run_ends_on_the_version_on_which_it_began_unless_it_is_moved(
    story: Story, automation_id: int, move: bool, sent: str
) -> None:
    new_version(story, automation_id, move=move)
    assert subjects_after_the_wait(story) == [sent]
    assert story.states(automation_id) == [("ended", "completed")]


def test_whoever_enters_after_a_change_gets_the_new_version(story: Story, automation_id: int) -> None:
    new_version(story, automation_id, move=False)
    story.contact()
    story.work()
    assert sorted(subjects_after_the_wait(story)) == ["First", "Second"]
