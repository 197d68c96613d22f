"""Automations: searching them, and one with its tree of steps and their counts (docs/console.md#automations)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.automations.definition import Branch, Definition, Send, Step
from app.automations.drawing import describe, entry_lines
from app.automations.parse import parse_stored
from app.console.queries import Asked, Found
from app.db.expressions import in_json
from app.db.lookup import find_with_id
from app.db.models import Automation, List
from app.runs.define import newest_version
from app.runs.read import AUTOMATIONS, StepCounts, count_states, count_steps, page_automations

PATH = "/console/automations"
Counted = tuple[str, int]
"""A word and a number."""


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step with its counts: the runs that are `here`, how many have passed it with which result, and what became of
    the messages that it has sent. `sides` are those of a branch by their words, without empty ones."""

    name: str
    does: str
    here: int
    results: Sequence[Counted]
    reported: Sequence[Counted]
    sides: Sequence[tuple[str, Sequence[ShownStep]]] = ()


@dataclass(frozen=True, slots=True)
class OneAutomation:
    """An automation with who enters and who leaves, its steps, and those that only earlier versions have."""

    row: Automation
    list_name: str
    entry: Sequence[str]
    steps: Sequence[ShownStep]
    earlier_steps: Sequence[ShownStep]

    @property
    def path(self) -> str:
        """The path of the automation's page."""
        return path_of_automation(self.row.id)


def path_of_automation(automation_id: int) -> str:
    """The path of the page of an automation."""
    return f"{PATH}/{automation_id}"


def search(asked: Asked) -> Found:
    """The account's automations that match, the newest first, each with the name of its list and the numbers of its
    runs that wait and that are held: three statements. Deleted ones are found by their state alone. Raises the errors
    of the query."""
    found = asked.found(PATH, AUTOMATIONS.resource, page_automations)
    names = _names_of_lists(asked.session, asked.account_id, [row.list_id for row in found.rows])
    states = count_states(asked.session, asked.account_id)
    items = [
        {
            **item,
            "list": names.get(row.list_id, ""),
            **{state: states[row.id][state] if row.id in states else 0 for state in ("waiting", "held")},
        }
        for item, row in zip(found.items, found.rows, strict=True)
    ]
    return replace(found, items=items)


def _names_of_lists(session: Session, account_id: int, ids: Sequence[int]) -> Mapping[int, str]:
    wanted = select(List.id, List.name).where(List.account_id == account_id, in_json(List.id, ids))
    return {row.id: row.name or "" for row in session.execute(wanted)}


def find_automation(session: Session, account_id: int | None, automation_id: int) -> Automation:
    """The account's automation, or that of any account for None. Raises `not_found`."""
    return find_with_id(session, Automation, account_id, automation_id, "automation")


def read_automation(session: Session, automation: Automation) -> OneAutomation:
    """What its page shows beside its runs: five statements, whatever the number of runs that have ended."""
    definition = parse_stored(newest_version(session, automation).definition)
    counts = count_steps(session, automation.account_id, automation.id)
    names = _names_of_lists(session, automation.account_id, [automation.list_id])
    return OneAutomation(
        automation,
        names.get(automation.list_id, ""),
        list(entry_lines(definition)),
        list(_shown(definition.steps, counts)),
        list(_earlier(definition, counts)),
    )


def _shown(steps: Sequence[Step], counts: Mapping[str, StepCounts]) -> Iterator[ShownStep]:
    for step in steps:
        shown = _counted(step.name, describe(step), counts, sends=isinstance(step, Send))
        if isinstance(step, Branch):
            sides = (("then", step.then), ("else", step.otherwise))
            shown = replace(shown, sides=[(word, list(_shown(side, counts))) for word, side in sides if side])
        yield shown


def _earlier(definition: Definition, counts: Mapping[str, StepCounts]) -> Iterator[ShownStep]:
    """The steps with counts that the newest version does not have."""
    for name in sorted(counts):
        if name and name not in definition.by_name:
            yield _counted(name, "", counts, sends=True)


def _counted(name: str, does: str, counts: Mapping[str, StepCounts], *, sends: bool) -> ShownStep:
    found = counts[name] if name in counts else StepCounts()
    reported = [(word.removesuffix("_contacts"), count) for word, count in found.reported.items() if count]
    return ShownStep(name, does, found.here, sorted(found.results.items()), reported if sends else ())
