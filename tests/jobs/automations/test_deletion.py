"""Deleting automations: what runs ends, and what was sent stays (docs/automation-runs.md#deleting)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.db.models import Automation
from app.errors import ServiceError
from app.runs.define import rename_automation
from app.runs.delete import delete_automation
from app.runs.pause import pause, resume
from tests.jobs.automations.conftest import ADVANCED, Story
from tests.support.client import conflict, not_found
from tests.support.tenants import new_email

STEPS = [
    {"name": "hello", "send": "Hello"},
    {"name": "two days", "wait": "2 days"},
    {"name": "again", "send": "Hello"},
]
ENDED = ("ended", "automation deleted")


@pytest.fixture
def series(story: Story) -> int:
    """The id of an automation whose contacts enter once."""
    story.tenant.add_message(name="Hello")
    return story.automation(**ADVANCED, name="Series", steps=STEPS, again="never")


def deleted(story: Story, automation_id: int) -> None:
    with story.worker.database.write() as transaction:
        delete_automation(transaction, story.tenant.id, automation_id)


def test_all_runs_of_a_deleted_automation_end_at_once_and_give_up_their_places(
    story: Story, series: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FIRST_ROWS", "MIN_ROWS", "MAX_ROWS"):
        monkeypatch.setattr(f"app.db.write_turns.{name}", 2)
    story.contact()
    story.work()
    story.calendar.move(days=2)
    story.work()
    waiting, due = story.contact(), story.contact()
    story.work()
    other = story.automation(**ADVANCED, steps=STEPS)
    story.contact()
    deleted(story, series)
    story.work()
    assert story.states(series) == [("ended", "completed"), ENDED, ENDED, ENDED]
    assert all(run.entry_key == run.id for run in story.runs(series))
    assert [run.end_time for run in story.runs(series)][1:] == [story.calendar.moment] * 3
    assert [step for contact in (waiting, due) for step, _, _ in story.passed(contact)] == ["hello", "hello"]
    assert story.states(other) == [("waiting", "two days")]


def test_held_runs_end_too_and_a_message_that_was_written_is_still_sent(story: Story, series: int) -> None:
    email = new_email()
    story.contact(email=email)
    story.advance()
    with story.worker.database.write() as transaction:
        pause(transaction, story.tenant.id, series)
    story.contact()
    story.advance()
    assert [state for state, _ in story.states(series)] == ["waiting", "held"]
    deleted(story, series)
    story.work()
    assert story.states(series) == [ENDED, ENDED]
    assert [to for to, _ in story.mails()] == [email]


def test_a_run_that_begins_while_its_automation_is_deleted_ends_when_it_is_due(story: Story, series: int) -> None:
    story.contact()
    deleted(story, series)
    with story.worker.database.write() as transaction:
        transaction.get_one(Automation, series).release = None
    story.work()
    assert story.states(series) == [ENDED]
    assert story.mails() == []


def test_nobody_enters_a_deleted_automation_and_its_list_costs_what_it_did_before(
    story: Story, series: int, count_statements: Callable[[], Any]
) -> None:
    def created() -> int:
        with count_statements() as counted:
            story.contact()
        number: int = counted.count
        return number

    listened = created()
    second = story.automation(**ADVANCED, name="Second", steps=STEPS)
    deleted(story, series)
    story.contact()
    assert (len(story.runs(series)), len(story.runs(second))) == (1, 1)
    deleted(story, second)
    assert created() < listened
    story.automation(**ADVANCED, name="Third", steps=STEPS, again="never")
    assert created() == listened


def test_what_a_deleted_automation_has_sent_still_says_where_it_comes_from(story: Story, series: int) -> None:
    story.rows.add_webhook()
    contact_id = story.contact()
    story.advance()
    deleted(story, series)
    story.work()
    (event,) = story.events("sent")
    assert (event["automation_id"], event["step_id"]) == (series, story.steps["hello"])
    sent = f"/v1/messages/{event['message_id']}/sent-contacts"
    (item,) = story.tenant.api.get(sent, {"report_id": event["report_id"]}).get_json()["_embedded"]["sent-contacts"]
    assert item["_links"]["contact"]["href"].endswith(f"/{contact_id}")
    automation = story.tenant.api.get(f"/v1/automations/{series}").get_json()
    assert (automation["name"], automation["state"]) == (f"Series (deleted {series})", "deleted")
    assert len(story.tenant.api.get(automation["_links"]["runs"]["href"]).get_json()["_embedded"]["runs"]) == 1


def test_a_deleted_automation_is_in_the_collection_only_where_its_state_is_asked_for(story: Story, series: int) -> None:
    second = story.automation(**ADVANCED, name="Second", steps=STEPS)
    deleted(story, series)

    def ids_of(**query: str) -> list[int]:
        answer = story.tenant.api.get("/v1/automations", query).get_json()
        return [item["id"] for item in answer["_embedded"]["automations"]]

    assert (ids_of(), ids_of(state="deleted"), ids_of(**{"state:ne": "paused"})) == (
        [second],
        [series],
        [second, series],
    )


def test_a_deleted_automation_is_not_resumed_renamed_or_deleted_again_and_its_name_is_free(
    story: Story, series: int
) -> None:
    deleted(story, series)
    story.automation(**ADVANCED, name="Series", steps=STEPS)
    for path in ("pause", "resume"):
        conflict(story.tenant.api.post(f"/v1/automations/{series}/{path}", {}))
    for change in (
        lambda transaction: pause(transaction, story.tenant.id, series),
        lambda transaction: resume(transaction, story.tenant.id, series),
        lambda transaction: rename_automation(transaction, story.tenant.id, series, "Other"),
        lambda transaction: delete_automation(transaction, story.tenant.id, series),
    ):
        with pytest.raises(ServiceError, match="conflict"), story.worker.database.write() as transaction:
            change(transaction)


def test_a_renamed_automation_goes_on_under_its_new_name(story: Story, series: int) -> None:
    story.contact()
    story.work()
    with story.worker.database.write() as transaction:
        rename_automation(transaction, story.tenant.id, series, "Welcome")
        rename_automation(transaction, story.tenant.id, series, "Welcome")
    automation = story.tenant.api.get(f"/v1/automations/{series}").get_json()
    assert (automation["name"], automation["version"], automation["definition"]["name"]) == ("Welcome", 2, "Welcome")
    story.automation(**ADVANCED, name="Series", steps=STEPS)
    with pytest.raises(ServiceError, match="conflict"), story.worker.database.write() as transaction:
        rename_automation(transaction, story.tenant.id, series, "Series")
    story.calendar.move(days=2)
    story.work()
    assert story.states(series) == [("ended", "completed")]


def test_nobody_deletes_the_automation_of_another_account(story: Story, series: int) -> None:
    with pytest.raises(ServiceError, match="not_found"), story.worker.database.write() as transaction:
        delete_automation(transaction, story.tenant.id + 1, series)
    not_found(story.tenant.api.get(f"/v1/automations/{series + 1000}"))
