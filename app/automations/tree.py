"""What the steps of a definition must be together: every step can be reached, and a branch asks about a message that a
run may have got before (docs/automations.md#steps). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.automations.definition import Branch, Definition, Outcome, Send, Step, Stop
from app.errors import ErrorCollector
from app.plain_data import joined


def step_paths(definition: Definition) -> dict[str, str]:
    """Name of each step -> its path in the definition. In a standard automation steps have none."""
    return {} if definition.kind == "standard" else dict(_paths(definition.steps, "steps"))


def _paths(steps: tuple[Step, ...], path: str) -> Iterator[tuple[str, str]]:
    for index, step in enumerate(steps):
        place = f"{path}[{index}]"
        yield step.name, place
        if isinstance(step, Branch):
            yield from _paths(step.then, joined(place, "then"))
            yield from _paths(step.otherwise, joined(place, "else"))


def check_tree(steps: tuple[Step, ...], path: str, errors: ErrorCollector) -> None:
    """Collects the errors of the tree."""
    _Tree(errors).check(steps, path, {})


@dataclass(slots=True)
class _Tree:
    errors: ErrorCollector
    seen: dict[str, Step] = field(default_factory=dict)
    """All steps written before, wherever they are."""

    def check(self, steps: tuple[Step, ...], path: str, before: dict[str, Step]) -> dict[str, Step] | None:
        """The steps that a run may have passed when it comes behind these; None if none comes there. `before` are those
        that it may have passed when it comes to the first."""
        passed, ends = dict(before), False
        for index, step in enumerate(steps):
            place = f"{path}[{index}]"
            self.seen[step.name] = step
            beyond = self._beyond(step, place, passed)
            if beyond is None and not ends and index + 1 < len(steps):
                detail = f"is never reached: every way ends at the step before {steps[index + 1].name!r}"
                self.errors.add("unexpected_field", field=f"{path}[{index + 1}]", detail=detail)
            # The steps behind one that ends every way are checked as if it did not.
            passed, ends = beyond or passed, ends or beyond is None
        return None if ends else passed

    def _beyond(self, step: Step, place: str, passed: dict[str, Step]) -> dict[str, Step] | None:
        passed[step.name] = step
        if isinstance(step, Stop):
            return None
        if not isinstance(step, Branch):
            return passed
        if isinstance(step.on, Outcome):
            self._check_outcome(step.on, joined(place, "branch"), passed)
        ways = (
            self.check(step.then, joined(place, "then"), passed),
            self.check(step.otherwise, joined(place, "else"), passed),
        )
        open_ways = [way for way in ways if way is not None]
        return {name: step for way in open_ways for name, step in way.items()} if open_ways else None

    def _check_outcome(self, outcome: Outcome, path: str, passed: dict[str, Step]) -> None:
        place, step = joined(path, "step"), passed.get(outcome.step)
        if step is None:
            there = (
                "no run that reaches this step has passed the" if outcome.step in self.seen else "there is no earlier"
            )
            self.errors.add("invalid_id", field=place, detail=f"{there} step {outcome.step!r}")
        elif not isinstance(step, Send):
            self.errors.add("invalid_id", field=place, detail=f"the step {outcome.step!r} sends no message")
