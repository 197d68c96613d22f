"""What an automation would do (docs/automations.md#simulating)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.automations.definition import Channel, Definition
from app.automations.facts import ContactFacts
from app.automations.simulate import Simulation, outcome_branches, simulate
from tests.support.automation_draws import automations, histories
from tests.support.automation_model import History, play
from tests.support.definitions import parsed

START = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)

STEPS = [
    {"name": "hello", "send": "Hello"},
    {
        "name": "read it",
        "branch": {"step": "hello", "did": "opened", "within": "2 days"},
        "then": [{"name": "mark", "set": {"status": "reader"}}],
        "else": [{"name": "out", "unsubscribe": "email"}],
    },
    {
        "name": "is reader",
        "branch": {"if": "status:EXACTLY:reader"},
        "then": [{"name": "morning", "wait": {"until": "09:00"}}],
    },
    {"name": "more", "send": "More"},
    {
        "name": "read more",
        "branch": {"step": "more", "did": "clicked", "within": "1 day", "link": "https://acme.example/a"},
        "then": [{"name": "end", "stop": True}],
    },
]


def definition(**entry: Any) -> Definition:
    required = {"name": "Series", "kind": "advanced", "list": "Customers", "trigger": "REST API Contact Created"}
    return parsed({**required, "steps": STEPS, **entry})


def lines(simulation: Simulation) -> list[tuple[str, str, str, str | None]]:
    return [(f"{step.time:%d %H:%M:%S}", step.step.name, step.result, step.assumption) for step in simulation.steps]


def simulated(
    values: Mapping[str, object] | None = None,
    happening: Collection[str] = (),
    refused: Mapping[Channel, str] | None = None,
) -> Simulation:
    contact = ContactFacts(values or {}, refused=refused or {})
    return simulate(definition(), contact, UTC, START, happening)


def test_a_simulation_assumes_that_nothing_becomes_of_messages_and_says_so() -> None:
    simulation = simulated()
    assert lines(simulation) == [
        ("22 10:00:00", "hello", "done", None),
        ("24 10:00:01", "read it", "else", "hello was not opened in time"),
        ("24 10:00:01", "out", "done", None),
        ("24 10:00:01", "is reader", "else", None),
        ("24 10:00:01", "more", "skipped", None),
        ("24 10:00:01", "read more", "else", None),
    ]
    assert (simulation.end_reason, simulation.end_time) == ("completed", simulation.steps[-1].time)
    assert (simulation.steps[4].detail, simulation.steps[5].detail) == ("unsubscribed", "no message")


def test_a_wait_behind_a_branch_is_as_long_as_it_says_if_that_was_not_waited_for_to_the_end() -> None:
    asked = {"name": "read it", "branch": {"step": "hello", "did": "opened", "within": "2 days"}}
    steps = [STEPS[0], {**asked, "then": [{"name": "an hour", "wait": "1 hour"}]}]
    simulation = simulate(definition(steps=steps), ContactFacts({}, refused={}), UTC, START, ["read it"])
    assert lines(simulation) == [
        ("22 10:00:00", "hello", "done", None),
        ("22 10:00:00", "read it", "then", "hello was opened at once"),
        ("22 11:00:00", "an hour", "done", None),
    ]


def test_what_is_said_to_happen_happens_as_soon_as_the_run_comes_there() -> None:
    simulation = simulated(happening=["read it", "read more"])
    assert lines(simulation) == [
        ("22 10:00:00", "hello", "done", None),
        ("22 10:00:00", "read it", "then", "hello was opened at once"),
        ("22 10:00:00", "mark", "done", None),
        ("22 10:00:00", "is reader", "then", None),
        ("23 09:00:00", "morning", "done", None),
        ("23 09:00:00", "more", "done", None),
        ("23 09:00:00", "read more", "then", "more was clicked at once"),
        ("23 09:00:00", "end", "done", None),
    ]
    assert simulation.end_reason == "stopped"


def test_a_contact_that_does_not_meet_the_condition_does_not_enter() -> None:
    gold = definition(**{"if": "plan:EXACTLY:gold"})
    assert not simulate(gold, ContactFacts({"plan": "tin"}), UTC, START).entered
    assert simulate(gold, ContactFacts({"plan": "gold"}), UTC, START).entered
    assert simulate(gold, ContactFacts({"plan": "gold"}, is_active=False), UTC, START).end_reason == "contact inactive"


def test_a_change_that_removes_a_value_hides_it_from_what_follows() -> None:
    steps = [
        {"name": "clear", "set": {"plan": None}},
        {"name": "has plan", "branch": {"if": "plan:HAS"}, "then": [{"name": "end", "stop": True}]},
    ]
    clearing = definition(steps=steps)
    assert simulate(clearing, ContactFacts({"plan": "gold"}), UTC, START).steps[1].result == "else"


def test_only_branches_on_messages_can_be_assumed() -> None:
    assert outcome_branches(definition()) == ["read it", "read more"]


@settings(max_examples=50, derandomize=True)
@given(data=st.data(), definition=automations())
def test_a_simulation_tells_what_a_run_does_when_nothing_happens(data: st.DataObject, definition: Definition) -> None:
    drawn = data.draw(histories(definition))
    history = History(drawn.start, drawn.zone, drawn.values)
    simulation = simulate(definition, ContactFacts(dict(history.values)), history.zone, history.start)
    story = play(definition, history)
    assert [(step.time, step.step.name, step.result, step.detail) for step in simulation.steps] == [
        (line.time, line.step, line.result, line.detail) for line in story.lines
    ]
    assert simulation.end_reason == story.end
