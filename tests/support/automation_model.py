"""A second, simple reading of the rules of automations (docs/automation-runs.md#rules), to compare the service with.

It knows a contact's whole history in advance and plays the steps one after the other, as the page tells them. It shares
the words of a definition with the service, and no rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from app.automations.definition import (
    WEEKDAYS,
    Branch,
    Call,
    Conditions,
    Definition,
    Did,
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

DAY = timedelta(days=1)
TICK = timedelta(minutes=30)
"""Times of day and changes of zones in these histories are on the half hour."""


@dataclass(frozen=True)
class Change:
    """Something that happens to the contact from outside: a field gets a value, or one of `delete`, `deactivate`,
    `activate`, and `unsubscribe`, `subscribe` or `block` with `email` or `mobile` behind it."""

    time: datetime
    what: str
    value: str | None = None


@dataclass(frozen=True)
class Happening:
    """What becomes of a message, so long after it was sent."""

    after: timedelta
    did: Did
    link: str | None = None


@dataclass(frozen=True)
class History:
    """All that happens around one run."""

    start: datetime
    """When the trigger fired."""
    zone: ZoneInfo
    values: Mapping[str, str]
    changes: tuple[Change, ...] = ()
    """In the order of time."""
    happenings: Mapping[str, tuple[Happening, ...]] = field(default_factory=dict)
    """What happens to a message, by the name of the step that sends it."""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Why a message is not accepted, by the name of the step that sends it."""
    outages: tuple[tuple[datetime, datetime], ...] = ()
    """Spans, in the order of time, in which no worker runs; it does at their end."""

    def worker_time(self, moment: datetime) -> datetime:
        """When a worker gets to what is due at the moment."""
        for start, end in self.outages:
            if start <= moment < end:
                return end
        return moment


@dataclass(frozen=True)
class Line:
    """A step that the run passed."""

    time: datetime
    step: str
    result: str
    detail: str | None = None


@dataclass(frozen=True)
class Story:
    """What a run did, and why it ended."""

    lines: tuple[Line, ...]
    end: str

    def sends(self, definition: Definition) -> list[tuple[datetime, str]]:
        """The messages sent, with their times."""
        senders = {name for name, step in definition.by_name.items() if isinstance(step, Send)}
        return [(line.time, line.step) for line in self.lines if line.step in senders and line.result == "done"]


class RunEnds(Exception):
    """The run is over, for the reason."""


class ContactModel:
    """The contact as it is after the changes so far."""

    def __init__(self, history: History) -> None:
        self.values: dict[str, str] = dict(history.values)
        self.exists = self.is_active = True
        self.refused: dict[str, str] = {}
        """Channel -> why it is closed; a block stays whatever the subscription."""
        self._happenings = history.happenings
        self._changes = list(history.changes)

    def pass_time(self, moment: datetime) -> None:
        while self._changes and self._changes[0].time <= moment:
            self._apply(self._changes.pop(0))

    def _apply(self, change: Change) -> None:
        match change.what.split():
            case ["delete"]:
                self.exists = False
            case ["deactivate"]:
                self.is_active = False
            case ["activate"]:
                self.is_active = True
            case ["unsubscribe", channel]:
                self.unsubscribe(channel)
            case ["subscribe", channel]:
                if self.refused.get(channel) == "unsubscribed":
                    del self.refused[channel]
            case ["block", channel]:
                self.refused[channel] = "blocked"
            case [key]:
                self.set(key, change.value)

    def unsubscribe(self, channel: str) -> None:
        self.refused.setdefault(channel, "unsubscribed")

    def get_message(self, step: Send, moment: datetime) -> None:
        """A mail that will bounce blocks the address then."""
        if step.message_type == "email":
            bounces = [happening for happening in self._happenings.get(step.name, ()) if happening.did == "bounced"]
            self._changes += [Change(moment + happening.after, "block email") for happening in bounces]
            self._changes.sort(key=lambda change: change.time)
            self.pass_time(moment)

    def set(self, key: str, value: object) -> None:
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = str(value)

    def meets(self, conditions: Conditions) -> bool:
        """Whether the contact meets the conditions, which may use EXACTLY only."""
        pairs = (written.split(":EXACTLY:") for written in conditions.written.split(":OR:"))
        return any(self.values.get(key, "").lower() == value.lower() for key, value in pairs)


def play(definition: Definition, history: History) -> Story:
    """The story of the run that the trigger starts."""
    return _Player(definition, history).story()


class _Player:
    def __init__(self, definition: Definition, history: History) -> None:
        self.definition = definition
        self.history = history
        self.contact = ContactModel(history)
        self.lines: list[Line] = []
        self.sent: dict[str, datetime] = {}
        self.came = history.start
        self.now = history.start

    def story(self) -> Story:
        try:
            self.pass_time_until(self.history.start)
            self.go_on()
            self.play_all(self.definition.steps)
        except RunEnds as ends:
            return Story(tuple(self.lines), str(ends))
        return Story(tuple(self.lines), "completed")

    def pass_time_until(self, moment: datetime) -> None:
        self.now = max(self.now, self.history.worker_time(moment))
        self.contact.pass_time(self.now)
        if not self.contact.exists:
            raise RunEnds("contact deleted")

    def go_on(self) -> None:
        if not self.contact.is_active:
            raise RunEnds("contact inactive")

    def passed(self, step: Step, result: str, detail: str | None = None) -> None:
        self.go_on()
        self.lines.append(Line(self.now, step.name, result, detail))
        self.came = self.now

    def play_all(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            if self.definition.leave_when and self.contact.meets(self.definition.leave_when):
                raise RunEnds("left")
            self.play_one(step)

    def play_one(self, step: Step) -> None:
        match step:
            case Send():
                self.send(step)
            case Wait(until=UntilDate() as until):
                self.wait_for_date(step, until)
            case Wait():
                self.wait(step)
            case Branch(on=Conditions() as conditions):
                self.take(step, holds=self.contact.meets(conditions))
            case Branch(on=Outcome() as outcome):
                self.ask(step, outcome)
            case SetFields():
                for key, value in step.values.items():
                    self.contact.set(key, value)
                self.passed(step, "done")
            case Unsubscribe():
                for channel in step.channels:
                    self.contact.unsubscribe(channel)
                self.passed(step, "done")
            case Call():
                self.passed(step, "done")
            case Stop():
                self.passed(step, "done")
                raise RunEnds("stopped")

    def send(self, step: Send) -> None:
        channel = "email" if step.message_type == "email" else "mobile"
        if channel in self.contact.refused:
            self.passed(step, "skipped", self.contact.refused[channel])
        elif step.name in self.history.refusals:
            self.passed(step, "skipped", self.history.refusals[step.name])
        else:
            self.sent[step.name] = self.now
            self.passed(step, "done")
            self.contact.get_message(step, self.now)

    def wait(self, step: Wait) -> None:
        if isinstance(step.until, Duration):
            self.pass_time_until(self.came + elapsed(step.until))
            self.passed(step, "done")
            return
        assert isinstance(step.until, UntilTime)
        end = next(moment for moment in times_of_day(step.until, self.came, self.history.zone))
        self.pass_time_until(end)
        self.passed(step, *(("done",) if self.now - end < DAY else ("skipped", "late")))

    def wait_for_date(self, step: Wait, until: UntilDate) -> None:
        promised = came = self.came
        while True:
            written = self.contact.values.get(until.field)
            if written is None:
                self.passed(step, "skipped", "no date")
                return self.stop_unless_it_continues(until, "no date")
            moments = moments_of_date(until, date.fromisoformat(written), self.history.zone)
            end = next(moment for moment in moments if until.past != "next year" or came - moment < DAY)
            end = max(end, promised) if promised > came else end
            if until.past == "next year" and self.now - end >= DAY:
                end = next(moment for moment in moments if self.now - moment < DAY)
            if end <= self.now:
                break
            promised = end
            self.pass_time_until(end)
        if self.now - end < DAY:
            return self.passed(step, "done")
        self.passed(step, "skipped", "late" if end > came else "date past")
        return self.stop_unless_it_continues(until, "date past")

    def stop_unless_it_continues(self, until: UntilDate, reason: str) -> None:
        if until.past != "continue":
            raise RunEnds(reason)

    def ask(self, step: Branch, outcome: Outcome) -> None:
        sent = self.sent.get(outcome.step)
        if sent is None:
            self.passed(step, "else", "no message")
            return self.play_all(step.otherwise)
        last_second = sent.replace(microsecond=0) + elapsed(outcome.within)
        happened = [
            sent + happening.after
            for happening in self.history.happenings.get(outcome.step, ())
            if happening.did == outcome.did and outcome.link in (None, happening.link)
        ]
        in_time = [moment for moment in happened if moment.replace(microsecond=0) <= last_second]
        self.pass_time_until(min(in_time) if in_time else last_second + timedelta(seconds=1))
        return self.take(step, holds=bool(in_time))

    def take(self, step: Branch, *, holds: bool) -> None:
        self.passed(step, "then" if holds else "else")
        self.play_all(step.then if holds else step.otherwise)


def elapsed(duration: Duration) -> timedelta:
    seconds = {"minutes": 60, "hours": 3600, "days": 86400, "weeks": 7 * 86400}
    return timedelta(seconds=duration.amount * seconds[duration.unit])


def times_of_day(until: UntilTime, start: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    day = start.astimezone(zone).date() - DAY
    while True:
        moment = first_shown(day, until.at, zone)
        if moment >= start and WEEKDAYS[day.weekday()] in until.on:
            yield moment
        day += DAY


def moments_of_date(until: UntilDate, day: date, zone: ZoneInfo) -> Iterator[datetime]:
    """In this year of the date, the next one, and so on."""
    for year in range(day.year, 9000):
        try:
            same_day = day.replace(year=year)
        except ValueError:
            same_day = date(year, 2, 28)
        yield first_shown(same_day + until.offset * DAY, until.at, zone)


@cache
def first_shown(day: date, at: time, zone: ZoneInfo) -> datetime:
    """The first moment at which a clock, read every half hour, shows that time or a later one."""
    local_time = datetime.combine(day, at)
    moment = datetime.combine(day, time(0), UTC) - timedelta(hours=15)
    while moment.astimezone(zone).replace(tzinfo=None) < local_time:
        moment += TICK
    return moment
