"""Pausing, resuming and cancelling by hand (docs/automation-runs.md#pausing)."""

from __future__ import annotations

import pytest

from app.runs.pause import Resumption, cancel, pause, resume
from app.runs.releases import RunReleases
from tests.jobs.automations.conftest import ADVANCED, Story
from tests.support.automations import release_held
from tests.support.tenants import new_email

SERIES = [
    {"name": "hello", "send": "Hello"},
    {"name": "two days", "wait": "2 days"},
    {"name": "again", "send": "Again"},
    {"name": "another day", "wait": "1 day"},
    {"name": "last", "send": "Last"},
]


@pytest.fixture
def series(story: Story) -> int:
    """The id of an automation."""
    for name in ("Hello", "Again", "Last"):
        story.tenant.add_message(name=name, subject=name)
    return story.automation(**ADVANCED, steps=SERIES)


def paused(story: Story, automation_id: int) -> None:
    with story.worker.database.write() as transaction:
        assert pause(transaction, story.tenant.id, automation_id)
        assert not pause(transaction, story.tenant.id, automation_id)


def resumed(story: Story, automation_id: int, how: Resumption) -> None:
    with story.worker.database.write() as transaction:
        assert resume(transaction, story.tenant.id, automation_id, how)
        assert not resume(transaction, story.tenant.id, automation_id, how)


def subjects(story: Story) -> list[str]:
    return [subject for _, subject in story.mails()]


def test_what_falls_due_in_a_pause_is_held(story: Story, series: int) -> None:
    story.contact()
    story.work()
    paused(story, series)
    new = story.contact()
    story.calendar.move(days=3)
    story.work()
    assert subjects(story) == ["Hello"]
    assert [(run.state, run.reason, run.step) for run in story.runs(series)] == [
        ("held", "paused", "two days"),
        ("held", "paused", "hello"),
    ]
    assert story.passed(new) == []


def test_resuming_sends_what_was_held(story: Story, series: int) -> None:
    story.contact()
    story.work()
    paused(story, series)
    story.calendar.move(days=3)
    story.work()
    resumed(story, series, "send")
    story.work()
    assert subjects(story) == ["Hello", "Again"]
    story.calendar.move(days=1)
    story.work()
    assert subjects(story) == ["Hello", "Again", "Last"]


def test_resuming_skips_the_message_that_was_held_and_no_other(story: Story, series: int) -> None:
    contact_id = story.contact()
    story.work()
    paused(story, series)
    story.calendar.move(days=3)
    story.work()
    resumed(story, series, "skip")
    story.work()
    assert story.passed(contact_id)[1:] == [("two days", "done", None), ("again", "skipped", "paused")]
    story.calendar.move(days=1)
    story.work()
    assert subjects(story) == ["Hello", "Last"]


@pytest.mark.parametrize("is_let_go", [True, False], ids=["let go before the next pause", "still held then"])
def test_what_was_to_be_skipped_is_skipped_after_another_pause_too(story: Story, series: int, is_let_go: bool) -> None:
    paused(story, series)
    contact_id = story.contact()
    story.work()
    resumed(story, series, "skip")
    if is_let_go:
        release_held(story.worker)
    paused(story, series)
    story.work()
    resumed(story, series, "send")
    story.work()
    assert story.passed(contact_id) == [("hello", "skipped", "paused")]


@pytest.mark.parametrize("is_paused_again", [False, True], ids=["let go after it", "still held after it"])
@pytest.mark.parametrize("is_let_go", [True, False], ids=["let go before the next pause", "still held then"])
def test_a_message_that_was_to_come_later_did_not_fall_due_in_the_next_pause(
    story: Story, series: int, is_let_go: bool, is_paused_again: bool
) -> None:
    story.contact()
    story.work()
    paused(story, series)
    story.calendar.move(days=3)
    story.work()
    resumed(story, series, "shift")
    if is_let_go:
        release_held(story.worker)
    paused(story, series)
    story.work()
    resumed(story, series, "skip")
    if is_paused_again:
        paused(story, series)
        resumed(story, series, "send")
    story.work()
    assert subjects(story) == ["Hello"]
    story.calendar.move(days=2)
    story.work()
    assert subjects(story) == ["Hello", "Again"]


def test_resuming_shifts_all_that_was_to_come_by_the_length_of_the_pause(story: Story, series: int) -> None:
    """What was held, and what would have been due after the pause alike."""
    first = new_email()
    story.contact(email=first)
    story.work()
    story.calendar.move(days=1)
    second = new_email()
    story.contact(email=second)
    story.work()
    paused(story, series)
    story.calendar.move(days=1, hours=12)
    story.work()
    resumed(story, series, "shift")
    story.work()
    assert subjects(story) == ["Hello", "Hello"]
    story.calendar.move(days=1, seconds=-1)
    story.work()
    assert len(story.mails()) == 2
    story.calendar.move(seconds=1)
    story.work()
    assert story.mails()[2:] == [(first, "Again")]
    story.calendar.move(days=1)
    story.work()
    assert sorted(story.mails()[3:]) == sorted([(first, "Last"), (second, "Again")])


def test_what_a_pause_held_is_not_late_by_its_length(story: Story) -> None:
    """A date that went past in the pause counts as the moment of resuming."""
    story.tenant.add_message(name="Hello")
    steps = [
        {"name": "birthday", "wait": {"date": "born", "past": "stop"}},
        {"name": "morning", "wait": {"until": "09:00"}},
        {"name": "hello", "send": "Hello"},
    ]
    birthday = story.automation(**ADVANCED, steps=steps)
    contact_id = story.contact(born="2026-03-03")
    story.work()
    paused(story, birthday)
    story.calendar.move(days=3)
    story.work()
    resumed(story, birthday, "send")
    story.work()
    assert story.passed(contact_id) == [("birthday", "done", None)]
    paused(story, birthday)
    story.calendar.move(days=3)
    story.work()
    resumed(story, birthday, "send")
    story.work()
    assert story.passed(contact_id)[1:] == [("morning", "done", None), ("hello", "done", None)]


@pytest.mark.parametrize("finds", [True, False], ids=["held when due", "never looked at"])
def test_a_run_that_began_in_a_pause_is_shifted_to_its_end_and_no_further(
    story: Story, series: int, finds: bool
) -> None:
    paused(story, series)
    story.calendar.move(days=1)
    story.contact()
    if finds:
        story.work()
    story.calendar.move(days=2)
    resumed(story, series, "shift")
    story.work()
    assert subjects(story) == ["Hello"]
    story.calendar.move(days=2)
    story.work()
    assert subjects(story) == ["Hello", "Again"]


def test_a_pause_after_the_one_in_which_a_run_began_shifts_it_whole(story: Story, series: int) -> None:
    paused(story, series)
    story.calendar.move(days=1)
    story.contact()
    story.work()
    resumed(story, series, "send")
    paused(story, series)
    story.calendar.move(days=1)
    resumed(story, series, "shift")
    story.work()
    assert subjects(story) == ["Hello"]
    paused(story, series)
    story.calendar.move(days=1)
    resumed(story, series, "shift")
    story.calendar.move(days=2, seconds=-1)
    story.work()
    assert subjects(story) == ["Hello"]
    story.calendar.move(seconds=1)
    story.work()
    assert subjects(story) == ["Hello", "Again"]


@pytest.mark.parametrize(("how", "days_until_sent"), [("send", 0), ("shift", 1)])
def test_the_first_wait_of_a_run_that_began_in_a_pause_is_not_late(
    story: Story, how: Resumption, days_until_sent: int
) -> None:
    """With `send`, the wait has ended during the pause. With `shift`, the wait begins with the end of the pause."""
    story.tenant.add_message(name="Hello", subject="Hello")
    steps = [{"name": "morning", "wait": {"until": "09:00"}}, {"name": "hello", "send": "Hello"}]
    automation_id = story.automation(**ADVANCED, steps=steps)
    paused(story, automation_id)
    contact_id = story.contact()
    story.work()
    story.calendar.move(days=3, hours=2)
    resumed(story, automation_id, how)
    story.work()
    assert len(story.mails()) == 1 - days_until_sent
    story.calendar.move(days=days_until_sent)
    story.work()
    assert story.passed(contact_id) == [("morning", "done", None), ("hello", "done", None)]


def test_the_first_wait_of_a_run_that_began_in_a_pause_is_as_long_as_ever_after_another_pause(story: Story) -> None:
    story.tenant.add_message(name="Hello", subject="Hello")
    steps = [{"name": "two days", "wait": "2 days"}, {"name": "hello", "send": "Hello"}]
    automation_id = story.automation(**ADVANCED, steps=steps)
    paused(story, automation_id)
    story.calendar.move(days=1)
    story.contact()
    story.work()
    story.calendar.move(days=1)
    resumed(story, automation_id, "shift")
    release_held(story.worker)
    paused(story, automation_id)
    story.work()
    story.calendar.move(days=1)
    resumed(story, automation_id, "shift")
    story.work()
    story.calendar.move(days=2, seconds=-1)
    story.work()
    assert subjects(story) == []
    story.calendar.move(seconds=1)
    story.work()
    assert subjects(story) == ["Hello"]


def test_what_an_earlier_pause_has_shifted_is_not_late_by_the_length_of_the_pause_that_held_it(story: Story) -> None:
    story.tenant.add_message(name="Hello", subject="Hello")
    steps = [{"name": "morning", "wait": {"until": "09:00"}}, {"name": "hello", "send": "Hello"}]
    automation_id = story.automation(**ADVANCED, steps=steps)
    contact_id = story.contact()
    story.work()
    paused(story, automation_id)
    story.calendar.move(hours=2)
    resumed(story, automation_id, "shift")
    release_held(story.worker)
    paused(story, automation_id)
    story.calendar.move(hours=1)
    story.work()
    story.calendar.move(days=3)
    resumed(story, automation_id, "send")
    story.work()
    assert story.passed(contact_id) == [("morning", "done", None), ("hello", "done", None)]


def test_a_run_that_a_pause_has_shifted_is_not_held_before_it_is_due(story: Story, series: int) -> None:
    story.contact()
    story.work()
    paused(story, series)
    story.calendar.move(days=1)
    resumed(story, series, "shift")
    story.calendar.move(hours=12)
    paused(story, series)
    story.calendar.move(hours=12)
    story.work()
    assert [state for state, _ in story.states(series)] == ["waiting"]
    resumed(story, series, "send")
    story.work()
    assert subjects(story) == ["Hello"]
    story.calendar.move(days=1)
    story.work()
    assert subjects(story) == ["Hello", "Again"]


def test_many_held_runs_are_let_go_in_chunks(story: Story, series: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_ROWS", "MIN_ROWS", "MAX_ROWS"):
        monkeypatch.setattr(f"app.db.write_turns.{name}", 2)
    paused(story, series)
    for _ in range(5):
        story.contact()
    story.work()
    assert [state for state, _ in story.states(series)] == ["held"] * 5
    resumed(story, series, "send")
    story.work()
    assert subjects(story) == ["Hello"] * 5


def test_a_large_automation_that_is_resumed_does_not_hold_up_a_small_one(
    story: Story, series: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FIRST_ROWS", "MIN_ROWS", "MAX_ROWS"):
        monkeypatch.setattr(f"app.db.write_turns.{name}", 2)
    paused(story, series)
    for _ in range(4):
        story.contact()
    small = story.automation(**ADVANCED, steps=SERIES)
    paused(story, small)
    story.contact()
    story.work()
    for automation_id in (series, small):
        resumed(story, automation_id, "send")
    releases = RunReleases(story.worker)
    releases.look()
    assert [releases.take_turn(), releases.take_turn()] == [False, True]
    assert [state for state, _ in story.states(series)] == ["waiting"] * 2 + ["held"] * 3
    assert [state for state, _ in story.states(small)] == ["waiting"]
    story.work()
    assert subjects(story) == ["Hello"] * 6


def test_a_cancelled_run_is_over_and_its_contact_may_come_again(story: Story, series: int) -> None:
    story.contact()
    story.work()
    (run,) = story.runs(series)
    with story.worker.database.write() as transaction:
        assert cancel(transaction, story.tenant.id, run.id)
        assert not cancel(transaction, story.tenant.id, run.id)
    story.calendar.move(days=2)
    story.work()
    assert subjects(story) == ["Hello"]
    assert story.states(series) == [("ended", "cancelled")]
    assert story.runs(series)[0].entry_key == run.id
