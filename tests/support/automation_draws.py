"""Random automations, and random histories of the contacts in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from app.automations.definition import (
    WEEKDAYS,
    Branch,
    Call,
    Conditions,
    Definition,
    Did,
    Duration,
    Entry,
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
from app.content.conditions import parse_conditions
from tests.support.automation_model import Change, Happening, History

Outages = tuple[tuple[datetime, datetime], ...]
Draw = Callable[[st.SearchStrategy[Any]], Any]

MOST_STEPS = 12
EMAIL, SMS, WEBHOOK = "Mail", "Text", "https://hooks.acme.example/in"
LINKS = ("https://acme.example/a", "https://acme.example/b")
PLANS = ("gold", "tin")
DATES = ("1990-11-23", "1992-02-29", "2026-11-01", "2026-11-20", "2026-11-24", "2027-03-14")
ZONES = (ZoneInfo("America/New_York"), ZoneInfo("Australia/Sydney"), ZoneInfo("UTC"))
STARTS = tuple(
    datetime.fromisoformat(written).replace(tzinfo=UTC)
    for written in ("2026-10-31 12:00", "2026-11-22 13:59:59", "2026-03-07 12:00:00.250000", "2026-10-03 15:30")
)
"""Days before a zone changes, and another."""
OUTCOMES: dict[str, tuple[Did, ...]] = {
    EMAIL: ("delivered", "opened", "clicked", "bounced"),
    SMS: ("delivered", "bounced", "replied"),
}
"""Message -> what can become of it."""

durations = st.sampled_from(
    [Duration(30, "minutes"), Duration(2, "hours"), Duration(1, "days"), Duration(2, "days"), Duration(1, "weeks")]
)
clocks = st.sampled_from([time(0), time(1, 30), time(2, 30), time(9), time(23, 30)])
times_of_day = st.builds(UntilTime, clocks, st.sampled_from([WEEKDAYS, WEEKDAYS[:2], WEEKDAYS[5:], ("sunday",)]))
dates = st.builds(
    UntilDate,
    st.just("born"),
    st.sampled_from([0, -7, 1, 30]),
    clocks,
    st.sampled_from(["continue", "stop", "next year"]),
)
conditions = st.sampled_from(["plan:EXACTLY:gold", "plan:EXACTLY:tin", "status:EXACTLY:gone:OR:plan:EXACTLY:gold"]).map(
    lambda written: Conditions(written, parse_conditions(written, "plan"))
)
new_values = st.sampled_from(
    [{"plan": "gold"}, {"plan": "tin", "status": None}, {"plan": None}, {"born": "1990-12-24"}]
)


class _Tree:
    """The steps of one automation, as they are drawn."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._left = MOST_STEPS
        self._messages: dict[str, str] = {}
        """The messages by the name of the step that sends them."""
        self._names = (f"step {number}" for number in itertools.count(1))

    def steps(self, sends: list[str], depth: int = 0) -> tuple[Step, ...]:
        """`sends` are the messages that the run may have got before; those of these steps join them."""
        steps: list[Step] = []
        for _ in range(self._draw(st.integers(1, 2 if depth else 5))):
            steps.append(self._step(sends, depth))
            if _ends(steps[-1]) or self._left <= 0:
                break
        return tuple(steps)

    def _step(self, sends: list[str], depth: int) -> Step:
        self._left -= 1
        name = next(self._names)
        branches = ["branch"] * 3 if depth < 3 and self._left > 2 else []
        match self._draw(st.sampled_from(["send", "send", "wait", "wait", "other", *branches])):
            case "branch":
                return self._branch(name, sends, depth)
            case "send":
                sends.append(name)
                sms = self._draw(st.integers(0, 3)) == 0
                self._messages[name] = SMS if sms else EMAIL
                return Send(name, SMS, message_type="sms") if sms else Send(name, EMAIL)
            case "wait":
                return Wait(name, self._draw(st.one_of(durations, times_of_day, dates)))
            case _:
                other: Step = self._draw(_others(name))
                return other

    def _branch(self, name: str, sends: list[str], depth: int) -> Branch:
        on = self._outcome(sends) if sends and self._draw(st.integers(0, 3)) else self._draw(conditions)
        then_sends, else_sends = list(sends), list(sends)
        then = self.steps(then_sends, depth + 1)
        otherwise = self.steps(else_sends, depth + 1) if self._draw(st.booleans()) else ()
        for side, side_sends in ((then, then_sends), (otherwise, else_sends)):
            if not (side and _ends(side[-1])):
                sends += [name for name in side_sends if name not in sends]
        return Branch(name, on, then, otherwise)

    def _outcome(self, sends: list[str]) -> Outcome:
        step = self._draw(st.sampled_from(sends))
        did = self._draw(st.sampled_from(OUTCOMES[self._messages[step]]))
        link = self._draw(st.sampled_from([None, *LINKS])) if did == "clicked" else None
        return Outcome(step, did, self._draw(durations), link)


def _ends(step: Step) -> bool:
    """Whether no run comes behind the step."""
    if isinstance(step, Branch):
        return bool(step.otherwise) and _ends(step.then[-1]) and _ends(step.otherwise[-1])
    return isinstance(step, Stop)


def _others(name: str) -> st.SearchStrategy[Step]:
    return st.one_of(
        st.builds(SetFields, st.just(name), new_values),
        st.builds(Unsubscribe, st.just(name), st.sampled_from([("email",), ("mobile",), ("email", "mobile")])),
        st.just(Call(name, WEBHOOK)),
        st.just(Stop(name)),
    )


@st.composite
def automations(draw: Draw) -> Definition:
    """An advanced automation of at most `MOST_STEPS` steps that the parser would accept."""
    steps = _Tree(draw).steps([])
    leave_when = draw(st.one_of(st.none(), st.just("status:EXACTLY:gone")))
    leaving = Conditions(leave_when, parse_conditions(leave_when, "")) if leave_when else None
    return Definition("Random", "advanced", "Customers", "created", Entry("when ended"), steps, leaving)


_delays = st.one_of(
    st.sampled_from([0, 1, 86399, 86400, 86401, 2 * 86400, 2 * 86400 + 1, 1800, 1801]), st.integers(0, 10 * 86400)
)


def _happenings(message: str) -> st.SearchStrategy[Happening]:
    return st.builds(
        lambda seconds, did, link: Happening(timedelta(seconds=seconds), did, link if did == "clicked" else None),
        _delays,
        st.sampled_from(OUTCOMES[message]),
        st.sampled_from(LINKS),
    )


def _answers(outcome: Outcome) -> st.SearchStrategy[Happening]:
    """What a branch asks for, early or late, in the last second or the one behind it; a click may be on another
    link."""
    last = int(outcome.within.delta.total_seconds())
    seconds = st.sampled_from([0, 1, last // 2, last - 1, last, last, last + 1, last + 1])
    links = st.sampled_from([outcome.link or LINKS[0], *LINKS]) if outcome.did == "clicked" else st.none()
    return st.builds(lambda after, link: Happening(timedelta(seconds=after), outcome.did, link), seconds, links)


def _happenings_of(definition: Definition, step: Send) -> st.SearchStrategy[tuple[Happening, ...]]:
    branches = (step.on for step in definition.by_name.values() if isinstance(step, Branch))
    asked = [_answers(on) for on in branches if isinstance(on, Outcome) and on.step == step.name]
    return st.lists(st.one_of(_happenings(step.message), *asked, *asked), max_size=3).map(tuple)


_switches = st.sampled_from(
    ["unsubscribe email", "subscribe email", "unsubscribe mobile", "subscribe mobile", "deactivate", "delete"]
)
_values = st.one_of(
    st.tuples(st.just("plan"), st.sampled_from([*PLANS, None])),
    st.tuples(st.just("status"), st.sampled_from(["gone", None])),
    st.tuples(st.just("born"), st.sampled_from([*DATES, None])),
)


def _changes(start: datetime) -> st.SearchStrategy[tuple[Change, ...]]:
    what = st.one_of(_values, _values, st.tuples(_switches, st.none()))
    change = st.builds(lambda seconds, pair: (Change(start + timedelta(seconds=seconds), *pair),), _delays, what)
    absence = st.builds(
        lambda seconds, length: (
            Change(start + timedelta(seconds=seconds), "deactivate"),
            Change(start + timedelta(seconds=seconds + length), "activate"),
        ),
        st.integers(0, 2 * 86400),
        st.sampled_from([3600, 86400]),
    )
    groups = st.lists(st.one_of(change, change, change, absence), max_size=5)
    return groups.map(
        lambda change_groups: tuple(sorted(itertools.chain(*change_groups), key=lambda change: change.time))
    )


def outages_from(start: datetime) -> st.SearchStrategy[Outages]:
    """None mostly, else one of hours or days."""
    hours = st.tuples(st.sampled_from([0, 0, 1, 12, 24, 40, 47, 70]), st.sampled_from([1, 20, 30, 80]))
    span = hours.map(lambda pair: (start + timedelta(hours=pair[0]), start + timedelta(hours=pair[0] + pair[1])))
    return st.one_of(st.just(()), st.just(()), st.tuples(span))


@st.composite
def histories(
    draw: Draw,
    definition: Definition,
    start: datetime | None = None,
    zone: ZoneInfo | None = None,
    outages: Outages | None = None,
) -> History:
    """What happens around a run of that automation; what is not given is drawn."""
    senders = {name: step for name, step in definition.by_name.items() if isinstance(step, Send)}
    start = start or draw(st.sampled_from(STARTS))
    values = {"plan": draw(st.sampled_from(PLANS))}
    if draw(st.integers(0, 3)):
        values["born"] = draw(st.sampled_from(DATES))
    return History(
        start,
        zone or draw(st.sampled_from(ZONES)),
        values,
        draw(_changes(start)),
        {name: draw(_happenings_of(definition, step)) for name, step in senders.items()},
        {name: "invalid_id" for name in senders if draw(st.integers(0, 7)) == 0},
        draw(outages_from(start)) if outages is None else outages,
    )
