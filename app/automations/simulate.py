"""What an automation would do with a contact, and when, if nothing else happened to the contact
(docs/automations.md#simulating). Pure.

It walks as a run does, from one due moment to the next, with a contact that only the automation itself changes. What
becomes of a message cannot be known, so a branch that asks is taken by what the caller assumes.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any

from app.automations.definition import Branch, Definition, Outcome, SetFields, Step, Unsubscribe
from app.automations.facts import ContactFacts, EndReason, Facts, Fate, Passage, Place, StepResult, any_holds
from app.automations.walk import RunEnd, RunWait, Walk, walk


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """A step that the run would pass."""

    time: datetime
    step: Step
    result: StepResult
    detail: str | None
    assumption: str | None = None
    """What is assumed at a branch that asks what became of a message."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """What would happen."""

    entered: bool
    """Whether the condition of entry holds."""
    steps: tuple[SimulatedStep, ...] = ()
    end_time: datetime | None = None
    end_reason: EndReason | None = None


def outcome_branches(definition: Definition) -> list[str]:
    """The names of the branches that ask what became of a message."""
    return [step.name for step in definition.by_name.values() if isinstance(step, Branch) and _asked(step)]


def _asked(step: Step | None) -> Outcome | None:
    return step.on if isinstance(step, Branch) and isinstance(step.on, Outcome) else None


def simulate(
    definition: Definition, contact: ContactFacts, zone: tzinfo, start: datetime, happening: Collection[str] = ()
) -> Simulation:
    """What a trigger that fires at `start` would lead to.

    What a branch in `happening` asks for happens as soon as the run comes there; what another one asks for does not
    happen in time.
    """
    conditions = definition.entry.conditions
    if conditions and not any_holds(conditions, contact.values, zone):
        return Simulation(entered=False)
    return _Simulator(definition, contact, zone, start, frozenset(happening)).run()


class _Simulator:
    def __init__(
        self, definition: Definition, contact: ContactFacts, zone: tzinfo, start: datetime, happening: frozenset[str]
    ) -> None:
        self._definition = definition
        self._contact = contact
        self._zone = zone
        self._moment = start
        self._happening = happening
        self._place = Place(definition.first.name, start, None, start)
        self._steps: list[SimulatedStep] = []
        self._fates: dict[str, dict[str, Any]] = {}
        self._assumptions: dict[str, str] = {}

    def run(self) -> Simulation:
        while True:
            walked = self._walk()
            if isinstance(walked.next, RunEnd):
                return Simulation(True, tuple(self._steps), self._moment, walked.next.reason)
            self._wait(walked.next)

    def _walk(self) -> Walk:
        fates = {name: Fate(**facts) for name, facts in self._fates.items()}
        passed = {simulated.step.name: Passage(simulated.time, simulated.result) for simulated in self._steps}
        facts = Facts(self._moment, self._zone, self._contact, passed, fates)
        walked = walk(self._definition, self._place, facts)
        for passed_step in walked.passed:
            step, assumption = self._definition.by_name[passed_step.step], self._assumptions.get(passed_step.step)
            self._steps.append(SimulatedStep(self._moment, step, passed_step.result, passed_step.detail, assumption))
        self._carry_out(walked.effect)
        return walked

    def _carry_out(self, effect: Step | None) -> None:
        if isinstance(effect, SetFields):
            self._change(effect.values)
        if isinstance(effect, Unsubscribe):
            self._change({f"subscribed_{channel}": False for channel in effect.channels})
            refused = {**dict.fromkeys(effect.channels, "unsubscribed"), **self._contact.refused}
            self._contact = replace(self._contact, refused=refused)

    def _change(self, values: Mapping[str, object]) -> None:
        """A value of None hides the one that the contact has."""
        self._contact = replace(self._contact, values=ChainMap(dict(values), dict(self._contact.values)))

    def _wait(self, waiting: RunWait) -> None:
        self._place = replace(self._place, step=waiting.step, step_time=waiting.step_time, due_time=waiting.due_time)
        outcome = _asked(self._definition.by_name[waiting.step])
        if outcome is None or waiting.watched is None:
            self._moment = waiting.due_time
        elif waiting.step in self._happening and waiting.step not in self._assumptions:
            self._assumptions[waiting.step] = f"{outcome.step} was {outcome.did} at once"
            self._happen(outcome)
        else:
            self._assumptions[waiting.step] = f"{outcome.step} was not {outcome.did} in time"
            self._moment = waiting.due_time

    def _happen(self, outcome: Outcome) -> None:
        fate = self._fates.setdefault(outcome.step, {})
        if outcome.did == "clicked":
            fate.setdefault("clicked", {}).setdefault(outcome.link or "", self._moment)
        fate.setdefault("opened" if outcome.did == "clicked" else outcome.did, self._moment)
