"""What operators see of runs, and what is deleted of them (docs/health.md#status)."""

from __future__ import annotations

from sqlalchemy import delete, update

from app.cli.status import status_of
from app.db.models import AutomationRun, AutomationVersion
from app.infrastructure.metrics import own_counts
from app.maintenance import sweeps
from app.maintenance.figures import read_figures
from app.runs.advance import FIRST_DELAY, MAX_ATTEMPTS, MAX_DELAY
from app.runs.pause import FAILURE_REASON, pause
from app.runs.read import count_steps
from tests.jobs.automations.conftest import ADVANCED, CREATED, Story
from tests.support.statements import StatementCounter

WAIT = [{"name": "a day", "wait": "1 day"}]


def run_figures(story: Story) -> dict[str, int | float | None]:
    """The figures about runs."""
    with story.worker.database.read() as session:
        figures = status_of(read_figures(session, story.worker.settings, moment=story.calendar.moment))
    return {name: value for name, value in figures.items() if name.startswith("runs_")}


def test_the_status_counts_runs_by_state_and_tells_how_late_the_oldest_is(story: Story) -> None:
    with story.worker.database.write() as transaction:
        transaction.execute(delete(AutomationRun))
    none = {"runs_waiting": 0, "runs_due": 0, "runs_late": 0, "runs_held": 0, "runs_due_oldest_seconds": None}
    assert run_figures(story) == none
    automation_id = story.automation(**ADVANCED, steps=WAIT)
    story.contact()
    story.work()
    assert run_figures(story) == {**none, "runs_waiting": 1}
    story.calendar.move(days=1, seconds=60)
    story.contact()
    assert run_figures(story) == {**none, "runs_due": 2, "runs_late": 1, "runs_due_oldest_seconds": 60.0}
    with story.worker.database.write() as transaction:
        pause(transaction, story.tenant.id, automation_id)
    story.work()
    assert run_figures(story) == {**none, "runs_held": 2}


def test_the_scheduler_finds_what_is_due_and_what_a_pause_has_left(story: Story) -> None:
    def finds_work() -> bool:
        with story.worker.database.read() as session:
            return sweeps.RunSweep().finds_work(session)

    story.automation(**ADVANCED, steps=WAIT)
    assert not finds_work()
    story.contact()
    assert finds_work()
    story.work()
    assert not finds_work()
    story.calendar.move(days=1)
    assert finds_work()


def test_steps_and_ends_are_counted_for_the_metrics(story: Story) -> None:
    steps, ends = ("tms_automation_steps_total", (("result", "done"),)), "tms_automation_runs_ended_total"
    before = own_counts()
    story.automation(**ADVANCED, steps=WAIT)
    story.contact()
    story.work()
    story.calendar.move(days=1, seconds=10)
    story.work()
    after = own_counts()
    completed = (ends, (("reason", "completed"),))
    assert after[steps] - before.get(steps, 0) == 1
    assert after[completed] - before.get(completed, 0) == 1
    late = ("tms_automation_delay_seconds_sum", ())
    assert after[late] - before.get(late, 0) == 10


def test_ended_runs_are_deleted_after_the_retention_but_not_what_keeps_a_contact_out(story: Story) -> None:
    story.automation(kind="standard", trigger=CREATED, message=story.message())
    ended = story.automation(**ADVANCED, steps=WAIT)
    never = story.automation(**ADVANCED, steps=WAIT, again="never")
    contact_id = story.contact()
    story.work()
    story.calendar.move(days=1)
    story.work()
    waiting = story.automation(**ADVANCED, steps=[{"name": "long", "wait": "400 days"}])
    story.contact()
    story.calendar.move(days=30, seconds=1)
    sweeps.clean(story.worker)
    assert [run.contact_id for run in story.runs(never) if run.state == "ended"] == [contact_id]
    assert [run.state for run in story.runs(ended)] == ["waiting"]
    assert [run.state for run in story.runs(waiting)] == ["waiting"]
    assert story.passed(contact_id) == [("a day", "done", None)]


def test_steps_are_counted_when_they_are_passed_and_stay_counted_when_runs_are_deleted(story: Story) -> None:
    """In a statement of the chunk; showing the counts reads no passed step (docs/automation-runs.md#counts)."""
    gold_waits = {"name": "gold", "branch": {"if": "first_name:EXACTLY:Gold"}, "then": WAIT}
    automation_id = story.automation(**ADVANCED, steps=[gold_waits, {"name": "mail", "send": story.message()}])
    gold = story.contact(first_name="Gold")
    story.contact(email=None)
    with StatementCounter(story.worker.database.engine) as counted:
        story.work()
    assert (
        len([statement for statement in counted.statements if "INSERT INTO automation_step_counts" in statement]) == 1
    )
    assert results(story, automation_id) == {"gold": {"then": 1, "else": 1}, "mail": {"skipped": 1}, "a day": {}}
    story.calendar.move(days=30, seconds=1)
    sweeps.clean(story.worker)
    assert [run.contact_id for run in story.runs(automation_id)] == [gold]
    with StatementCounter(story.worker.database.engine) as counted:
        counts = results(story, automation_id)
    assert counts == {"gold": {"then": 1, "else": 1}, "mail": {"skipped": 1}, "a day": {}}
    assert [statement for statement in counted.statements if "automation_passed_steps" in statement] == []


def results(story: Story, automation_id: int) -> dict[str, dict[str, int]]:
    """What came of each step at which a run has been."""
    with story.worker.database.read() as session:
        counts = count_steps(session, story.tenant.id, automation_id)
    return {name: dict(count.results) for name, count in counts.items()}


def test_runs_of_deleted_contacts_are_deleted_after_the_retention_whatever_kept_them_out(story: Story) -> None:
    """A deleted contact cannot enter again, so no run is needed to keep it out."""
    ended = story.automation(**ADVANCED, steps=[{"name": "end", "stop": True}], again="never")
    waiting = story.automation(**ADVANCED, steps=WAIT, again="never")
    contact_id = story.contact()
    story.work()
    assert story.tenant.api.delete(f"/v1/lists/{story.list_id}/contacts/{contact_id}").status_code == 204
    assert story.states(ended) == [("ended", "stopped")]
    assert story.states(waiting) == [("ended", "contact deleted")]
    story.calendar.move(days=30, seconds=1)
    sweeps.clean(story.worker)
    assert (story.runs(ended), story.runs(waiting)) == ([], [])


def test_a_run_that_fails_is_put_off_longer_each_time_and_ends_at_last_beside_others(story: Story) -> None:
    """A run that ends by failing gives up the contact's place as at any end, so that the contact may enter again."""
    automation_id = story.automation(**ADVANCED, steps=WAIT)
    once = story.automation(**ADVANCED, steps=WAIT, again="never")
    broken = story.contact()
    with story.worker.database.write() as transaction:
        transaction.execute(update(AutomationRun).where(AutomationRun.contact_id == broken).values(step="no such step"))
    story.contact()
    delays = []
    for _ in range(MAX_ATTEMPTS - 1):
        began = story.calendar.moment
        story.work()
        run, other = story.runs(automation_id)
        assert (run.state, run.reason, other.step) == ("waiting", FAILURE_REASON, "a day")
        delays.append(run.due_time - began)
        story.calendar.moment = run.due_time
    assert delays == [min(FIRST_DELAY * 2**number, MAX_DELAY) for number in range(MAX_ATTEMPTS - 1)]
    story.work()
    run, other = story.runs(automation_id)
    assert (run.state, run.reason, run.step, other.state) == ("ended", FAILURE_REASON, None, "waiting")
    assert (run.entry_key, other.entry_key) == (run.id, 0)
    assert [(run.reason, run.entry_key) for run in story.runs(once)] == [(FAILURE_REASON, 0), (None, 0)]


def test_a_run_that_fails_because_its_version_cannot_be_read_keeps_its_place(story: Story) -> None:
    automation_id = story.automation(**ADVANCED, steps=WAIT)
    story.contact()
    unreadable = {"automation_id": automation_id, "number": 2, "definition": {"kind": "unknown"}}
    version_id = story.rows.add(AutomationVersion, **unreadable, creation_time=story.calendar.moment)
    with story.worker.database.write() as transaction:
        criteria = AutomationRun.automation_id == automation_id
        last = {"version_id": version_id, "attempts": MAX_ATTEMPTS - 1}
        transaction.execute(update(AutomationRun).where(criteria).values(last))
    story.work()
    assert [(run.state, run.reason, run.entry_key) for run in story.runs(automation_id)] == [
        ("ended", FAILURE_REASON, 0)
    ]
