"""How far a run goes at a moment (docs/automation-runs.md#rules)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from app.automations.definition import (
    Branch,
    Call,
    Channel,
    Conditions,
    Definition,
    Did,
    Duration,
    Entry,
    Outcome,
    Past,
    Send,
    SetFields,
    Step,
    Stop,
    Unsubscribe,
    UntilDate,
    UntilTime,
    Wait,
)
from app.automations.facts import ContactFacts, EndReason, Facts, Fate, Passage, Place, SkipReason, StepResult
from app.automations.walk import PassedStep, RunEnd, RunWait, refused, walk
from app.content.conditions import parse_conditions
from tests.support.cases import each

MOMENT = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)
"""A Sunday."""
DONE, SKIPPED, THEN, ELSE = StepResult.DONE, StepResult.SKIPPED, StepResult.THEN, StepResult.ELSE
TWO_DAYS = Duration(2, "days")
HELLO, MORE, TEXT = Send("hello", "Hello"), Send("more", "More"), Send("text", "Text", message_type="sms")
MARK, OUT, TELL, END = (
    SetFields("mark", {"status": "welcomed"}),
    Unsubscribe("out", ("email",)),
    Call("tell", "https://hooks.acme.example/in"),
    Stop("end"),
)
PAUSE = Wait("pause", TWO_DAYS)


def conditions(written: str) -> Conditions:
    return Conditions(written, parse_conditions(written, ""))


def automation(*steps: Step, leave_when: str | None = None) -> Definition:
    leaving = conditions(leave_when) if leave_when else None
    return Definition("A", "advanced", "Customers", "created", Entry("when ended"), steps, leaving)


def at(step: Step, *, since: datetime | None = None, due: datetime = MOMENT, skips: bool = False) -> Place:
    """A run that came here when the trigger fired; with `since`, one that has waited here from then on."""
    return Place(step.name, since or MOMENT, since, due, skips)


def facts(
    values: Mapping[str, object] | None = None,
    *,
    moment: datetime = MOMENT,
    zone: str = "UTC",
    refused: Mapping[Channel, str] | None = None,
    passed: Mapping[str, tuple[datetime, StepResult]] | None = None,
    fates: Mapping[str, Fate] | None = None,
) -> Facts:
    contact = ContactFacts(values or {}, is_active=True, refused=refused or {})
    passages = {name: Passage(*passage) for name, passage in (passed or {}).items()}
    return Facts(moment, ZoneInfo(zone), contact, passages, fates or {})


def fate(did: Did, happened: datetime) -> Fate:
    outcomes: dict[str, Any] = {did: happened}
    return Fate(**outcomes)


def at_once(step: Step) -> RunWait:
    return RunWait(step.name, MOMENT, None)


def passed(*steps: tuple[Step, StepResult] | tuple[Step, StepResult, str]) -> tuple[PassedStep, ...]:
    return tuple(PassedStep(step.name, *rest) for step, *rest in steps)


# ------------------------------------------------------------------------------------------------ steps that act


def test_a_message_is_one_walk_and_the_run_ends_behind_the_last_step() -> None:
    walked = walk(automation(HELLO), at(HELLO), facts())
    assert walked.passed == passed((HELLO, DONE))
    assert walked.effect == HELLO
    assert walked.next == RunEnd(EndReason.COMPLETED)


@each("first", [HELLO, MARK, OUT, TELL])
@each("second", [MORE, Call("again", "x"), SetFields("again", {})])
def test_a_walk_has_one_effect_and_the_next_is_due_at_once(first: Step, second: Step) -> None:
    walked = walk(automation(first, second), at(first), facts())
    assert (walked.passed, walked.effect, walked.next) == (passed((first, DONE)), first, at_once(second))


def test_behind_a_message_the_walk_goes_on_to_where_the_run_waits() -> None:
    """The message changes nothing that is judged, so a send and the wait behind it are one transaction."""
    opened = Branch("read", Outcome("hello", "opened", TWO_DAYS), (MORE,))
    walked = walk(automation(HELLO, opened), at(HELLO), facts())
    due = MOMENT + timedelta(days=2, seconds=1)
    assert walked.passed == passed((HELLO, DONE))
    assert walked.next == RunWait("read", due, MOMENT, "hello")


@pytest.mark.parametrize("change", [MARK, OUT], ids=lambda step: step.name)
def test_behind_a_change_the_contact_is_read_again_before_anything_is_judged(change: Step) -> None:
    gold = Branch("gold", conditions("plan:EXACTLY:gold"), (HELLO,))
    walked = walk(automation(change, gold), at(change), facts())
    assert (walked.passed, walked.next) == (passed((change, DONE)), at_once(gold))


def test_a_channel_that_refuses_skips_its_messages_only() -> None:
    steps = automation(HELLO, TEXT, MORE)
    walked = walk(steps, at(HELLO), facts(refused={"email": "unsubscribed"}))
    assert walked.passed == passed((HELLO, SKIPPED, "unsubscribed"), (TEXT, DONE))
    assert (walked.effect, walked.next) == (TEXT, at_once(MORE))
    walked = walk(steps, at(MORE), facts(refused={"email": "unsubscribed"}))
    assert (walked.effect, walked.next) == (None, RunEnd(EndReason.COMPLETED))
    walked = walk(steps, at(TEXT), facts(refused={"mobile": "blocked"}))
    assert walked.passed == passed((TEXT, SKIPPED, "blocked"), (MORE, DONE))
    assert walked.effect == MORE


def test_a_message_that_is_refused_when_it_is_written_is_skipped_and_what_follows_is_judged_again() -> None:
    opened = Branch("read", Outcome("hello", "opened", TWO_DAYS), (MORE,))
    definition = automation(PAUSE, HELLO, opened)
    walked = walk(definition, at(PAUSE, since=MOMENT - timedelta(days=2)), facts())
    assert walked.next == RunWait("read", MOMENT + timedelta(days=2, seconds=1), MOMENT, "hello")
    again = refused(definition, walked, "invalid_message_id", MOMENT)
    assert again.passed == passed((PAUSE, DONE), (HELLO, SKIPPED, "invalid_message_id"))
    assert (again.effect, again.next) == (None, at_once(opened))
    alone = automation(HELLO)
    assert refused(alone, walk(alone, at(HELLO), facts()), "x", MOMENT).next == RunEnd(EndReason.COMPLETED)
    with pytest.raises(ValueError, match="without an effect"):
        refused(definition, again, "x", MOMENT)


def test_what_fell_due_in_a_pause_is_skipped_where_that_was_chosen() -> None:
    walked = walk(automation(PAUSE, HELLO, MORE), at(PAUSE, since=MOMENT - timedelta(days=2), skips=True), facts())
    assert walked.passed == passed((PAUSE, DONE), (HELLO, SKIPPED, "paused"), (MORE, DONE))
    assert walked.effect == MORE


# ------------------------------------------------------------------------------------------------ waits


@each(
    ("wait", "zone", "due"),
    [
        (Wait("w", TWO_DAYS), "UTC", MOMENT + timedelta(days=2)),
        (Wait("w", UntilTime(time(9))), "UTC", MOMENT + timedelta(hours=23)),
        (Wait("w", UntilTime(time(9))), "America/New_York", MOMENT + timedelta(hours=4)),
        (Wait("w", UntilTime(time(9), ("tuesday",))), "UTC", MOMENT + timedelta(days=1, hours=23)),
        (Wait("w", UntilDate("meeting", -1, time(9))), "UTC", MOMENT + timedelta(days=4, hours=23)),
        (Wait("w", UntilDate("born", 0, time(9), "next year")), "UTC", MOMENT + timedelta(days=161, hours=23)),
    ],
)
def test_a_run_waits_until_the_moment_and_passes_the_step_then(wait: Wait, zone: str, due: datetime) -> None:
    values = {"meeting": "2026-11-28", "born": "1990-05-03"}
    definition = automation(wait, HELLO)
    assert walk(definition, at(wait), facts(values, zone=zone)).next == RunWait("w", due, MOMENT)
    place = at(wait, since=MOMENT, due=due)
    early = walk(definition, place, facts(values, zone=zone, moment=due - timedelta(microseconds=1)))
    assert (early.passed, early.next) == ((), RunWait("w", due, MOMENT))
    walked = walk(definition, place, facts(values, zone=zone, moment=due))
    assert (walked.passed, walked.effect) == (passed((wait, DONE), (HELLO, DONE)), HELLO)


def test_a_wait_counts_from_when_the_step_before_it_was_passed() -> None:
    """The moment at which a worker looks makes no difference."""
    before = MOMENT - timedelta(hours=3)
    walked = walk(automation(HELLO, PAUSE), at(PAUSE), facts(passed={"hello": (before, DONE)}))
    assert walked.next == RunWait("pause", before + timedelta(days=2), before)


def test_the_first_wait_counts_from_the_trigger_however_late_it_is_looked_at() -> None:
    place = Place("pause", MOMENT - timedelta(hours=3), None, MOMENT)
    walked = walk(automation(PAUSE), place, facts())
    assert walked.next == RunWait("pause", place.trigger_time + timedelta(days=2), place.trigger_time)


def test_a_date_that_was_still_to_come_when_the_trigger_fired_is_late_and_not_past() -> None:
    wait = Wait("w", UntilDate("meeting"))
    trigger_time = MOMENT - timedelta(days=3)
    walks = {
        due_time: [
            walk(automation(wait), Place("w", trigger_time, None, due_time), facts({"meeting": day})).passed
            for day in ("2026-11-20", "2026-11-19")
        ]
        for due_time in (trigger_time, MOMENT)
    }
    late, past = passed((wait, SKIPPED, "late")), passed((wait, SKIPPED, "date past"))
    # The second one was held by a pause, which ends now.
    assert walks == {trigger_time: [late, past], MOMENT: [passed((wait, DONE)), past]}


@pytest.mark.parametrize(("late", "result"), [(timedelta(hours=23, minutes=59), DONE), (timedelta(days=1), SKIPPED)])
@pytest.mark.parametrize("until", [UntilTime(time(9)), UntilDate("meeting")], ids=["time", "date"])
def test_a_wait_that_is_looked_at_a_day_late_is_skipped_and_the_run_goes_on(
    until: UntilTime | UntilDate, late: timedelta, result: StepResult
) -> None:
    wait = Wait("w", until)
    arrival = datetime(2026, 11, 21, 12, tzinfo=UTC)
    due = datetime(2026, 11, 22, 9 if isinstance(until, UntilTime) else 0, tzinfo=UTC)
    place = Place("w", arrival, arrival, due)
    walked = walk(automation(wait, HELLO), place, facts({"meeting": "2026-11-22"}, moment=due + late))
    detail = None if result == DONE else SkipReason.LATE
    assert (walked.passed[0], walked.effect) == (PassedStep("w", result, detail), HELLO)


def test_a_duration_is_never_too_late() -> None:
    walked = walk(automation(PAUSE, HELLO), at(PAUSE, since=MOMENT - timedelta(days=9)), facts())
    assert walked.passed == passed((PAUSE, DONE), (HELLO, DONE))


@each(
    ("past", "date", "result", "end"),
    [
        ("continue", "2026-11-22", (DONE, None), None),
        ("stop", "2026-11-22", (DONE, None), None),
        ("next year", "2026-11-22", (DONE, None), None),
        ("continue", "2026-11-21", (SKIPPED, SkipReason.DATE_PAST), None),
        ("stop", "2026-11-21", (SKIPPED, SkipReason.DATE_PAST), EndReason.DATE_PAST),
        ("continue", None, (SKIPPED, SkipReason.NO_DATE), None),
        ("stop", "soon", (SKIPPED, SkipReason.NO_DATE), EndReason.NO_DATE),
        ("next year", None, (SKIPPED, SkipReason.NO_DATE), EndReason.NO_DATE),
    ],
)
def test_a_date_that_is_past_or_missing_does_what_the_step_says(
    past: Past, date: str | None, result: tuple[StepResult, str | None], end: EndReason | None
) -> None:
    wait = Wait("w", UntilDate("meeting", past=past))
    walked = walk(automation(wait, HELLO), at(wait), facts({"meeting": date}))
    assert walked.passed[0] == PassedStep("w", *result)
    assert (walked.next, walked.effect) == ((RunEnd(end), None) if end else (RunEnd(EndReason.COMPLETED), HELLO))


def test_a_birthday_that_was_missed_is_waited_for_again() -> None:
    wait = Wait("w", UntilDate("born", 0, time(9), "next year"))
    birthday = datetime(2026, 11, 20, 9, tzinfo=UTC)
    place = Place("w", birthday - timedelta(days=90), birthday - timedelta(days=90), birthday)
    values = {"born": "1990-11-20"}
    walked = walk(automation(wait, HELLO), place, facts(values))
    assert (walked.passed, walked.next) == ((), RunWait("w", birthday.replace(year=2027), place.trigger_time))
    later = facts(values, moment=birthday.replace(year=2027))
    assert walk(automation(wait, HELLO), replace(place, due_time=birthday.replace(year=2027)), later).effect == HELLO


def test_a_date_that_moved_while_the_run_waited_for_it_is_waited_for_again() -> None:
    wait = Wait("w", UntilDate("meeting"))
    arrival = MOMENT - timedelta(days=5)
    place = at(wait, since=arrival, due=datetime(2026, 11, 22, tzinfo=UTC))
    walked = walk(automation(wait, HELLO), place, facts({"meeting": "2026-11-25"}))
    assert (walked.passed, walked.next) == ((), RunWait("w", datetime(2026, 11, 25, tzinfo=UTC), arrival))
    assert walk(automation(wait, HELLO), place, facts({"meeting": "2026-11-10"})).effect == HELLO


def test_a_wait_that_resuming_put_off_ends_when_it_is_due() -> None:
    wait = Wait("w", UntilDate("meeting", past="stop"))
    due = MOMENT + timedelta(days=3)
    place = at(wait, since=MOMENT - timedelta(days=20), due=due)
    definition, values = automation(wait, HELLO), {"meeting": "2026-11-10"}
    assert walk(definition, place, facts(values)).next == RunWait("w", due, MOMENT - timedelta(days=20))
    assert walk(definition, place, facts(values, moment=due)).effect == HELLO


# ------------------------------------------------------------------------------------------------ branches


def test_both_sides_of_a_branch_lead_to_the_step_behind_it() -> None:
    gold = Branch("gold", conditions("plan:EXACTLY:gold:OR:spend:GREATERTHAN:1000"), (HELLO,), (TEXT,))
    definition = automation(gold, MORE)
    cases: list[tuple[Mapping[str, object], StepResult, Step]] = [
        ({"plan": "Gold"}, THEN, HELLO),
        ({"plan": "tin", "spend": 1000.5}, THEN, HELLO),
        ({"spend": 1000}, ELSE, TEXT),
    ]
    for values, result, step in cases:
        walked = walk(definition, at(gold), facts(values))
        assert (walked.passed, walked.effect) == (passed((gold, result), (step, DONE)), step)
        assert walked.next == at_once(MORE)


def test_a_branch_without_else_goes_on_behind_it_and_a_stop_inside_ends_the_run() -> None:
    gold = Branch("gold", conditions("plan:EXACTLY:gold"), (END,))
    definition = automation(gold, HELLO)
    assert walk(definition, at(gold), facts({"plan": "tin"})).effect == HELLO
    stopped = walk(definition, at(gold), facts({"plan": "gold"}))
    assert stopped.passed == passed((gold, THEN), (END, DONE))
    assert (stopped.effect, stopped.next) == (None, RunEnd(EndReason.STOPPED))


@pytest.mark.parametrize("did", ["delivered", "opened", "bounced", "replied"])
def test_a_branch_asks_what_became_of_a_message_by_the_last_second_of_its_time(did: Did) -> None:
    read = Branch("read", Outcome("hello", did, TWO_DAYS), (MORE,), (TEXT,))
    definition = automation(HELLO, read)
    sent = MOMENT.replace(microsecond=700_000)
    end = MOMENT + timedelta(days=2)
    history = {"hello": (sent, DONE)}
    place = at(read, since=sent, due=end + timedelta(seconds=1))

    def at_moment(moment: datetime, happened: datetime | None) -> Step | RunWait | RunEnd | None:
        fates = {"hello": fate(did, happened)} if happened else {}
        walked = walk(definition, place, facts(moment=moment, passed=history, fates=fates))
        return walked.effect or walked.next

    waiting = RunWait("read", end + timedelta(seconds=1), sent, "hello")
    last, late = end + timedelta(microseconds=999_999), end + timedelta(seconds=1)
    assert at_moment(sent, None) == waiting
    assert at_moment(last, None) == waiting
    assert at_moment(sent, sent) == MORE
    assert at_moment(last, last) == MORE
    assert at_moment(late, None) == TEXT
    assert at_moment(late, late) == TEXT
    assert at_moment(late + timedelta(days=9), last) == MORE


def test_a_click_may_be_asked_of_one_link() -> None:
    clicked = {"https://acme.example/a": MOMENT, "https://acme.example/b": MOMENT + timedelta(hours=1)}
    history = {"hello": (MOMENT, DONE)}
    later = MOMENT + timedelta(hours=2)
    for link, expected in [(None, MORE), ("https://acme.example/b", MORE), ("https://acme.example/c", None)]:
        branch = Branch("read", Outcome("hello", "clicked", TWO_DAYS, link), (MORE,))
        run_facts = facts(moment=later, passed=history, fates={"hello": Fate(clicked=clicked)})
        assert walk(automation(HELLO, branch), at(branch), run_facts).effect == expected


def test_a_branch_on_a_message_that_was_not_sent_is_decided_at_once() -> None:
    read = Branch("read", Outcome("hello", "opened", TWO_DAYS), (MORE,), (TEXT,))
    definition = automation(HELLO, read)
    walked = walk(definition, at(HELLO), facts(refused={"email": "unsubscribed"}))
    expected = passed((HELLO, SKIPPED, "unsubscribed"), (read, ELSE, "no message"), (TEXT, DONE))
    assert walked.passed == expected
    assert walk(definition, at(read), facts(passed={"hello": (MOMENT, SKIPPED)})).passed == expected[1:]
    assert walk(definition, at(read), facts()).passed == expected[1:]


# ------------------------------------------------------------------------------------------------ leaving


def test_a_contact_that_is_gone_ends_its_run_and_an_inactive_one_when_the_run_goes_on() -> None:
    gone = replace(facts(), contact=None)
    inactive = replace(facts(), contact=ContactFacts({}, is_active=False))
    since = MOMENT - timedelta(days=2)
    for place in (at(HELLO), at(PAUSE), at(END), at(PAUSE, since=since), at(PAUSE, since=MOMENT)):
        definition = automation(PAUSE, HELLO, END)
        assert walk(definition, place, gone).next == RunEnd(EndReason.CONTACT_DELETED)
        walked = walk(definition, place, inactive)
        still_waits = place.step_time == MOMENT
        expected = RunWait("pause", MOMENT + timedelta(days=2), MOMENT)
        assert (walked.passed, walked.effect) == ((), None)
        assert walked.next == (expected if still_waits else RunEnd(EndReason.CONTACT_INACTIVE))


def test_leaving_is_judged_before_each_step_and_not_while_a_run_waits() -> None:
    definition = automation(HELLO, PAUSE, MORE, leave_when="status:EXACTLY:cancelled")
    cancelled = {"status": "cancelled"}
    for step in (HELLO, PAUSE, MORE):
        walked = walk(definition, at(step), facts(cancelled))
        assert (walked.passed, walked.next) == ((), RunEnd(EndReason.LEFT))
    since = MOMENT - timedelta(days=2)
    early = walk(definition, at(PAUSE, since=since), facts(cancelled, moment=MOMENT - timedelta(seconds=1)))
    assert early.next == RunWait("pause", MOMENT, since)
    walked = walk(definition, at(PAUSE, since=since), facts(cancelled))
    assert (walked.passed, walked.effect, walked.next) == (passed((PAUSE, DONE)), None, RunEnd(EndReason.LEFT))
    assert walk(definition, at(HELLO), facts({"status": "active"})).effect == HELLO


# ------------------------------------------------------------------------------------------------ moved runs


def test_a_run_that_moved_to_another_version_passes_no_step_again() -> None:
    """The new version has steps that it passed behind the one at which it is."""
    gold = Branch("gold", conditions("plan:EXACTLY:gold"), (TEXT,), (TELL,))
    definition = automation(PAUSE, HELLO, gold, MORE)
    history = {"hello": (MOMENT - timedelta(days=3), DONE), "gold": (MOMENT - timedelta(days=3), THEN)}
    walked = walk(definition, at(PAUSE, since=MOMENT - timedelta(days=2)), facts(passed=history))
    assert walked.passed == passed((PAUSE, DONE), (TEXT, DONE))
    assert (walked.effect, walked.next) == (TEXT, at_once(MORE))
