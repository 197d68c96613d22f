"""The rules of automations: how far a run goes at a moment (docs/automation-runs.md#rules). Pure.

A walk begins at the run's next step and ends where the run must wait, where it ends, or behind the one step that acts:
a message, a change or a call. So what a step does commits with the row that says that it is passed, and the facts are
read again before anything is judged that it may have changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TypeAlias

from app.addresses import ADDRESS_KIND_BY_TYPE
from app.automations.definition import (
    WEEKDAYS,
    Branch,
    Call,
    Conditions,
    Definition,
    Duration,
    Outcome,
    Send,
    SetFields,
    Step,
    Stop,
    Unsubscribe,
    UntilDate,
    UntilTime,
    Wait,
)
from app.automations.facts import (
    ContactFacts,
    EndReason,
    Facts,
    Fate,
    Place,
    SkipReason,
    StepResult,
    any_holds,
    text_of,
)
from app.clock import DATE_FORM

# When a wait ends: clocks and dates in the account's zone, and how late a moment may be (docs/automation-runs.md#time).
# Pure.
#
# Moments that are computed here are in UTC, so that they are subtracted as elapsed time: Python subtracts two datetimes
# of one zone as local times, without the hour that a change to daylight saving adds or takes.

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
MAX_LATENESS = DAY
"""A moment that is past by less is kept; one that is past by as much or more is missed."""
FIRST_DAY, LAST_DAY = date(2, 1, 1), date(9998, 12, 31)
"""Days that have a moment in every zone, with room for a change of zone on either side."""
NUMBER_OF_DAYS = LAST_DAY.toordinal()

_DAY = re.compile(DATE_FORM)


def is_missed(target: datetime, moment: datetime) -> bool:
    """Whether the target is so long past at the moment that what was to happen then must not happen any more."""
    return moment - target >= MAX_LATENESS


def whole_second(moment: datetime) -> datetime:
    """The second of the moment, as clients see it: outcomes are known to the second."""
    return moment.replace(microsecond=0)


def end_of_time(start: datetime, within: Duration) -> datetime:
    """The last second of a time counted from `start`: what happens in it counts, a second later does not."""
    return whole_second(start) + within.delta


def local_moment(day: date, at: time, zone: tzinfo) -> datetime:
    """When a clock in the zone shows `at` on that day.

    A time that the zone leaves out is the first moment after the gap; of one that it has twice, the first counts.
    """
    wall = datetime.combine(min(max(day, FIRST_DAY), LAST_DAY), at)
    moment = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == wall:
        return moment
    return _end_of_gap(wall.replace(tzinfo=zone, fold=1).astimezone(UTC), moment, zone)


def _end_of_gap(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The first second with the later offset, between a moment before the change of the zone and one after it."""
    offset = after.astimezone(zone).utcoffset()
    seconds = 0, int((after - before).total_seconds())
    while seconds[1] - seconds[0] > 1:
        middle = sum(seconds) // 2
        has_changed = (before + middle * SECOND).astimezone(zone).utcoffset() == offset
        seconds = (seconds[0], middle) if has_changed else (middle, seconds[1])
    return before + seconds[1] * SECOND


def next_time(until: UntilTime, start: datetime, zone: tzinfo) -> datetime:
    """The first moment at `start` or later when a clock in the zone shows the time, on one of the weekdays."""
    weekdays = {WEEKDAYS.index(name) for name in until.on}
    # From the day before: a time that it leaves out at midnight falls on this day.
    first = start.astimezone(zone).date() - DAY
    days = (first + number * DAY for number in range(10))
    moments = (local_moment(day, until.at, zone) for day in days if day.weekday() in weekdays)
    return next(moment for moment in moments if moment >= start)


def day_in(text: str, zone: tzinfo) -> date | None:
    """The day that a value names: a date, or a datetime, which is in `zone` where it has no offset. None for any other
    text and for days that do not exist."""
    try:
        if _DAY.fullmatch(text):
            return date.fromisoformat(text)
        moment = datetime.fromisoformat(text) if _DAY.match(text) else None
        return None if moment is None else (moment.astimezone(zone) if moment.tzinfo else moment).date()
    except (ValueError, OverflowError):
        return None


def moment_of_date(until: UntilDate, day: date, start: datetime, zone: tzinfo) -> datetime:
    """The moment that a date field names.

    Where a past date counts in the next year, it is that of the first year in which the moment is not missed at
    `start`.
    """
    if until.past != "next year":
        return _shifted(until, day, zone)
    earliest = start.astimezone(zone).year - 2 - abs(until.offset) // 365
    years = range(max(day.year, earliest), LAST_DAY.year + 1)
    moments = (_shifted(until, in_year(day, year), zone) for year in years)
    return next((moment for moment in moments if not is_missed(moment, start)), _shifted(until, LAST_DAY, zone))


def _shifted(until: UntilDate, day: date, zone: tzinfo) -> datetime:
    ordinal = min(max(day.toordinal() + until.offset, 1), NUMBER_OF_DAYS)
    return local_moment(date.fromordinal(ordinal), until.at, zone)


def in_year(day: date, year: int) -> date:
    """The same day and month in another year; 29 February is the 28th in a year without it."""
    is_leap_day = (day.month, day.day) == (2, 29)
    return date(year, 3, 1) - DAY if is_leap_day else day.replace(year=year)


Effect: TypeAlias = Send | SetFields | Unsubscribe | Call
"""A step that acts."""


@dataclass(frozen=True, slots=True)
class PassedStep:
    """A step that this walk passes, at its moment."""

    step: str
    result: StepResult
    detail: str | None = None
    """Why it was skipped."""


@dataclass(frozen=True, slots=True)
class RunWait:
    """The run is looked at again when it is due, or sooner by what became of the watched step's message."""

    step: str
    due_time: datetime
    step_time: datetime | None
    """None where the run has not come to the step yet: it is due at once."""
    watched: str | None = None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The run is over."""

    reason: EndReason


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk found: the steps passed, the one among them that has to be carried out, and what comes then."""

    passed: tuple[PassedStep, ...]
    effect: Effect | None
    next: RunWait | RunEnd


def walk(definition: Definition, place: Place, facts: Facts) -> Walk:
    """How far the run goes by these facts.

    The step of `effect` is among the passed ones as done. Where it turns out that it cannot be carried out, `refused`
    makes of this walk the one to write.
    """
    if facts.contact is None:
        return Walk((), None, RunEnd(EndReason.CONTACT_DELETED))
    way = _Progress(definition, place, facts, facts.contact)
    following = way.go()
    still_waits = place.step_time is not None and isinstance(following, RunWait) and not way.passed
    if not facts.contact.is_active and not still_waits:
        return Walk((), None, RunEnd(EndReason.CONTACT_INACTIVE))
    return Walk(tuple(way.passed.values()), way.effect, following)


def refused(definition: Definition, walked: Walk, detail: str, moment: datetime) -> Walk:
    """The walk to write where the effect of this one was refused: the step is skipped, and the run looks
    at the next one at once. What was judged behind the step is forgotten, because it took the step for done."""
    if walked.effect is None:
        raise ValueError("a walk without an effect has none that could be refused")
    name = walked.effect.name
    names = [passed.step for passed in walked.passed]
    before = walked.passed[: names.index(name)]
    skipped = PassedStep(name, StepResult.SKIPPED, detail)
    return Walk((*before, skipped), None, _at_once(definition.after(name), moment))


def _at_once(step: Step | None, moment: datetime) -> RunWait | RunEnd:
    return RunWait(step.name, moment, None) if step else RunEnd(EndReason.COMPLETED)


class _Progress:
    """What one walk has passed so far."""

    def __init__(self, definition: Definition, place: Place, facts: Facts, contact: ContactFacts) -> None:
        self.passed: dict[str, PassedStep] = {}
        self.effect: Effect | None = None
        self._definition = definition
        self._place = place
        self._facts = facts
        self._contact = contact
        self._moment = facts.moment
        self._may_skip = place.skips_next

    def go(self) -> RunWait | RunEnd:
        step: Step | None = self._definition.by_name[self._place.step]
        came = self._place.step_time or self._last_passage()
        has_waited = self._place.step_time is not None
        while step is not None:
            following = self._meet(step, came, has_waited=has_waited)
            if isinstance(following, RunWait | RunEnd):
                return following
            step, came, has_waited = following, self._moment, False
        return RunEnd(EndReason.COMPLETED)

    def _last_passage(self) -> datetime:
        """When the run came to the step that is next: waits count from there, however late they are looked at."""
        return max((passage.time for passage in self._facts.passed.values()), default=self._place.trigger_time)

    def _meet(self, step: Step, came: datetime, *, has_waited: bool) -> Step | RunWait | RunEnd | None:
        if step.name in self._facts.passed:
            return self._way_taken(step)
        if self.effect and isinstance(step, Effect):
            return _at_once(step, self._moment)
        if not has_waited and self._leaves():
            return RunEnd(EndReason.LEFT)
        match step:
            case Wait():
                return self._wait(step, came, has_waited=has_waited)
            case Branch():
                return self._branch(step, came)
            case Stop():
                self._pass(step, StepResult.DONE)
                return RunEnd(EndReason.STOPPED)
            case _:
                return self._act(step)

    def _way_taken(self, step: Step) -> Step | None:
        """Beyond a step that the run passed on an earlier version: nothing is done twice."""
        if isinstance(step, Branch):
            return self._side(step, self._facts.passed[step.name].result)
        return self._definition.after(step.name)

    def _leaves(self) -> bool:
        leave_when = self._definition.leave_when
        return leave_when is not None and self._holds(leave_when)

    def _holds(self, conditions: Conditions) -> bool:
        return any_holds(conditions, self._contact.values, self._facts.zone)

    def _pass(self, step: Step, result: StepResult, detail: str | None = None) -> Step | None:
        self.passed[step.name] = PassedStep(step.name, result, detail)
        return self._side(step, result) if isinstance(step, Branch) else self._definition.after(step.name)

    def _side(self, branch: Branch, result: StepResult) -> Step | None:
        steps = branch.then if result == StepResult.THEN else branch.otherwise
        return steps[0] if steps else self._definition.after(branch.name)

    def _act(self, step: Effect) -> Step | RunWait | RunEnd | None:
        reason = self._skip_reason(step)
        if reason:
            return self._pass(step, StepResult.SKIPPED, reason)
        self.effect = step
        following = self._pass(step, StepResult.DONE)
        # What the contact is like from here on has to be read again.
        changes = isinstance(step, SetFields | Unsubscribe)
        return _at_once(following, self._moment) if changes else following

    def _skip_reason(self, step: Effect) -> str | None:
        reason = self._contact.refused.get(ADDRESS_KIND_BY_TYPE[step.message_type]) if isinstance(step, Send) else None
        if reason is None and self._may_skip:
            self._may_skip = False
            return SkipReason.PAUSED
        return reason

    def _wait(self, step: Wait, came: datetime, *, has_waited: bool) -> Step | RunWait | RunEnd | None:
        if has_waited and self._moment < self._place.due_time:
            return RunWait(step.name, self._place.due_time, came)
        due = self._end_of_wait(step, came)
        if due is None:
            return self._skip_wait(step, SkipReason.NO_DATE, EndReason.NO_DATE)
        if step.name == self._place.step and (has_waited or due > came):
            # A pause may have moved it, also that of a run that was held before it came here. What the walk comes to
            # later has nothing to do with when the run was due.
            due = max(due, self._place.due_time)
        if isinstance(step.until, UntilDate) and step.until.past == "next year" and is_missed(due, self._moment):
            due = self._end_of_wait(step, self._moment) or due
        if self._moment < due:
            return RunWait(step.name, due, came)
        if isinstance(step.until, Duration) or not is_missed(due, self._moment):
            return self._pass(step, StepResult.DONE)
        was_past = isinstance(step.until, UntilDate) and due <= came
        return self._skip_wait(step, SkipReason.DATE_PAST if was_past else SkipReason.LATE, EndReason.DATE_PAST)

    def _end_of_wait(self, step: Wait, start: datetime) -> datetime | None:
        """None where the contact has no date in the field."""
        zone = self._facts.zone
        match step.until:
            case Duration():
                return start + step.until.delta
            case UntilTime():
                return next_time(step.until, start, zone)
            case UntilDate():
                day = day_in(text_of(self._contact.values, step.until.field), zone)
                return moment_of_date(step.until, day, start, zone) if day else None

    def _skip_wait(self, step: Wait, reason: SkipReason, end: EndReason) -> Step | RunEnd | None:
        """What the step says of a past date holds for one that the contact does not have: without a date there is none
        next year either."""
        following = self._pass(step, StepResult.SKIPPED, reason)
        stops = isinstance(step.until, UntilDate) and step.until.past != "continue"
        return RunEnd(end) if stops else following

    def _branch(self, step: Branch, came: datetime) -> Step | RunWait | RunEnd | None:
        if isinstance(step.on, Conditions):
            return self._pass(step, StepResult.THEN if self._holds(step.on) else StepResult.ELSE)
        sent = self._sent_time(step.on)
        if sent is None:
            return self._pass(step, StepResult.ELSE, SkipReason.NO_MESSAGE)
        end = end_of_time(sent, step.on.within)
        happened = self._facts.fates.get(step.on.step, Fate()).first(step.on.did, step.on.link)
        if happened and whole_second(happened) <= end:
            return self._pass(step, StepResult.THEN)
        if self._moment < end + SECOND:
            return RunWait(step.name, end + SECOND, came, step.on.step)
        return self._pass(step, StepResult.ELSE)

    def _sent_time(self, outcome: Outcome) -> datetime | None:
        """When that step wrote its message; None where it was skipped, or never passed."""
        if outcome.step in self.passed:
            return self._moment if self.passed[outcome.step].result == StepResult.DONE else None
        passage = self._facts.passed.get(outcome.step)
        return passage.time if passage and passage.result == StepResult.DONE else None
