"""Who enters an automation, and how often (docs/automations.md#entry)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from app.contacts.update import update_contacts
from app.lists.find import get_list
from tests.jobs.automations.conftest import ADVANCED, CREATED, UPDATED, Story
from tests.support.races import at_once
from tests.support.sends import SendsApi
from tests.support.tenants import new_email

STEPS = [{"name": "two days", "wait": "2 days"}]
ON_UPDATE = {"kind": "advanced", "trigger": "REST API Contact Updated", "steps": STEPS}


def update(story: Story, contact_id: int, *names: str) -> None:
    """One update for each first name."""
    for name in names:
        story.change(contact_id, first_name=name)


def test_only_contacts_that_meet_the_condition_after_the_change_enter(story: Story) -> None:
    gold = story.automation(**ADVANCED, **{"if": "plan:EXACTLY:gold:OR:spend:GREATERTHAN:100"}, steps=STEPS)
    story.contact(plan="free")
    by_plan, by_spend = story.contact(plan="gold"), story.contact(plan="free", spend=101)
    assert [run.contact_id for run in story.runs(gold)] == [by_plan, by_spend]


def test_conditions_see_attributes_as_personalisation_does(story: Story) -> None:
    subscribed = story.automation(**ADVANCED, **{"if": "subscribed_email:EXACTLY:false"}, steps=STEPS)
    story.contact()
    contact_id = story.contact(subscribed={"email": False})
    assert [run.contact_id for run in story.runs(subscribed)] == [contact_id]


def test_never_lets_a_contact_enter_once_even_after_its_end(story: Story) -> None:
    automation_id = story.automation(**ON_UPDATE, again="never")
    contact_id = story.contact()
    update(story, contact_id, "A", "B")
    story.work()
    story.calendar.move(days=2)
    story.work()
    update(story, contact_id, "C")
    assert story.states(automation_id) == [("ended", "completed")]


def test_an_advanced_automation_lets_a_contact_enter_again_once_its_run_has_ended(story: Story) -> None:
    automation_id = story.automation(**ON_UPDATE)
    contact_id = story.contact()
    update(story, contact_id, "A", "B")
    story.work()
    assert len(story.runs(automation_id)) == 1
    story.calendar.move(days=2)
    story.work()
    update(story, contact_id, "C", "D")
    assert story.states(automation_id) == [("ended", "completed"), ("waiting", "two days")]


def test_always_lets_a_contact_run_several_times_at_once(story: Story) -> None:
    automation_id = story.automation(**ON_UPDATE, again="always")
    update(story, story.contact(), "A", "B", "C")
    assert len(story.runs(automation_id)) == 3


def test_a_least_time_counts_from_the_last_entry(story: Story) -> None:
    automation_id = story.automation(**ON_UPDATE, again={"after": "7 days"})
    contact_id = story.contact()
    update(story, contact_id, "A", "B")
    story.calendar.move(days=7, seconds=-1)
    update(story, contact_id, "C")
    assert len(story.runs(automation_id)) == 1
    story.calendar.move(seconds=1)
    update(story, contact_id, "D", "E")
    assert len(story.runs(automation_id)) == 2


def test_each_way_to_create_contacts_fires_once(story: Story) -> None:
    automation_id = story.automation(kind="standard", trigger=CREATED, message=story.message())
    single = story.contact()
    bulk = {"contacts": [{"email": new_email()} for _ in range(3)]}
    assert story.tenant.api.post(f"/v1/lists/{story.list_id}/contacts", bulk).status_code == 204
    sends = SendsApi(story.tenant)
    people = [{"email": new_email()}, {"contact_id": single}]
    sends.send(sends.email(list_id=story.list_id, recipients=people))
    assert len(story.runs(automation_id)) == 5


def test_a_contact_that_is_created_and_updated_in_one_transaction_fires_each_trigger_once(story: Story) -> None:
    created = story.automation(kind="standard", trigger=CREATED, message=story.message())
    updated = story.automation(kind="standard", trigger=UPDATED, message=story.message())
    contact_id = story.contact()
    with story.worker.database.write() as transaction:
        contact_list = get_list(transaction, story.tenant.id, story.list_id)
        update_contacts(transaction, contact_list, [(contact_id, {"first_name": "A"})])
        update_contacts(transaction, contact_list, [(contact_id, {"first_name": "B"})])
    assert (len(story.runs(created)), len(story.runs(updated))) == (1, 1)


def test_a_change_that_is_rolled_back_enters_nobody(story: Story) -> None:
    automation_id = story.automation(**ADVANCED, steps=STEPS)
    email = new_email()
    bulk = {"contacts": [{"email": email}, {"email": email}]}
    assert story.tenant.api.post(f"/v1/lists/{story.list_id}/contacts", bulk).status_code == 409
    assert story.runs(automation_id) == []


def test_entering_takes_as_many_statements_for_a_thousand_contacts_as_for_one(
    story: Story, count_statements: Callable[[], Any]
) -> None:
    story.automation(**ADVANCED, **{"if": "plan:NOTEXACTLY:gold:OR:first_name:HASNOT"}, steps=STEPS)
    counts = {}
    for number in (1, 1, 1000):
        bulk = {"contacts": [{"email": new_email()} for _ in range(number)]}
        with count_statements() as counted:
            assert story.tenant.api.post(f"/v1/lists/{story.list_id}/contacts", bulk).status_code == 204
        counts[number] = counted.count
    assert 0 < counts[1] == counts[1000]


def test_a_list_without_automations_pays_no_statement(story: Story, count_statements: Callable[[], Any]) -> None:
    """The automations of other lists make no difference."""
    other_list = story.tenant.add_list()
    counts = []
    for _ in range(2):
        with count_statements() as counted:
            assert story.tenant.api.post(f"/v1/lists/{other_list}/contacts", {"email": new_email()}).status_code == 201
        counts.append(counted.count)
        story.automation(**ADVANCED, steps=STEPS)
    assert 0 < counts[0] == counts[1]


@pytest.mark.parametrize("again", ["never", "when ended"])
def test_updates_at_the_same_moment_begin_one_run(story: Story, again: str) -> None:
    automation_id = story.automation(**ON_UPDATE, again=again)
    contact_id = story.contact()
    path = f"/v1/lists/{story.list_id}/contacts/{contact_id}"
    at_once([partial(story.tenant.api.patch, path, {"first_name": name}) for name in "ABCD"])
    assert len(story.runs(automation_id)) == 1
