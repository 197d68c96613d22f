"""When waits end, in the zone of the account and after an outage of the workers (docs/automation-runs.md#time)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.jobs.automations.conftest import ADVANCED, Story


def utc(written: str) -> datetime:
    return datetime.fromisoformat(written).replace(tzinfo=UTC)


@pytest.fixture
def new_york(story: Story) -> Story:
    """The account, in New York: one hour forward on 8 March 2026 at 02:00, one back on 1 November at 02:00."""
    story.set_account(time_zone="America/New_York")
    story.tenant.add_message(name="Hello")
    return story


def steps(until: object) -> list[dict[str, object]]:
    return [{"name": "wait", "wait": until}, {"name": "hello", "send": "Hello"}]


@pytest.mark.parametrize(
    ("start", "at", "end"),
    [
        ("2026-03-07 12:00", "02:30", "2026-03-08 07:00"),
        ("2026-10-31 12:00", "01:30", "2026-11-01 05:30"),
        ("2026-11-01 05:30:01", "01:30", "2026-11-02 06:30"),
    ],
    ids=["left out", "twice", "between the two"],
)
def test_a_wait_for_a_time_that_is_left_out_or_comes_twice_ends_once(
    new_york: Story, start: str, at: str, end: str
) -> None:
    new_york.calendar.moment = utc(start)
    new_york.automation(**ADVANCED, steps=steps({"until": at}))
    contact_id = new_york.contact()
    new_york.work()
    new_york.calendar.moment = utc(end)
    new_york.calendar.move(seconds=-1)
    new_york.work()
    assert new_york.mails() == []
    new_york.calendar.move(seconds=1)
    new_york.work()
    new_york.calendar.move(hours=1)
    new_york.work()
    assert len(new_york.mails()) == 1
    assert new_york.passed(contact_id) == [("wait", "done", None), ("hello", "done", None)]


@pytest.mark.parametrize(
    ("late", "past", "passed", "end"),
    [
        (23.99, "stop", [("wait", "done", None), ("hello", "done", None)], "completed"),
        (24, "continue", [("wait", "skipped", "late"), ("hello", "done", None)], "completed"),
        (24, "stop", [("wait", "skipped", "late")], "date past"),
    ],
)
def test_a_wait_that_ended_while_no_worker_ran_counts_if_it_is_less_than_a_day_ago(
    new_york: Story, late: float, past: str, passed: list[object], end: str
) -> None:
    automation_id = new_york.automation(**ADVANCED, steps=steps({"date": "born", "at": "09:00", "past": past}))
    contact_id = new_york.contact(born="2026-03-10")
    new_york.work()
    new_york.calendar.moment = utc("2026-03-10 13:00")
    new_york.calendar.move(hours=late)
    new_york.work()
    assert new_york.passed(contact_id) == passed
    assert new_york.states(automation_id) == [("ended", end)]


def test_a_date_that_moves_while_a_run_waits_for_it_is_waited_for_again(new_york: Story) -> None:
    automation_id = new_york.automation(**ADVANCED, steps=steps({"date": "born", "at": "09:00"}))
    contact_id = new_york.contact(born="2026-03-10")
    new_york.work()
    new_york.change(contact_id, born="2026-03-20")
    new_york.calendar.moment = utc("2026-03-10 13:00")
    new_york.work()
    (run,) = new_york.runs(automation_id)
    assert (run.state, run.due_time) == ("waiting", utc("2026-03-20 13:00"))
    new_york.calendar.moment = utc("2026-03-20 13:00")
    new_york.work()
    assert new_york.states(automation_id) == [("ended", "completed")]
    assert len(new_york.mails()) == 1
