"""The tree of a definition as text, a line per step, for people. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from app.automations.definition import (
    TRIGGERS,
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
from app.automations.parts import duration_text, offset_text
from app.automations.written import written_channels

INDENT = "  "
Row = tuple[str, str, str]
"""Name, what the step does, and what is said of it; a side of a branch has only the first."""


def draw(definition: Definition, note: Callable[[Step], str] | None = None) -> list[str]:
    """Who enters and who leaves, then the steps, each with a note behind it."""
    rows = list(_rows(definition.steps, INDENT, note or (lambda _: "")))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{name.ljust(widths[0])}  {does.ljust(widths[1])}  {said}".rstrip() for name, does, said in rows]
    return [*entry_lines(definition), *lines]


def entry_lines(definition: Definition) -> Iterator[str]:
    """Who enters and who leaves, in a few lines."""
    entry = definition.entry
    yield f"when: {TRIGGERS[definition.action][definition.kind]}, in the list {definition.list}"
    if entry.conditions:
        yield f"if: {entry.conditions.written}"
    least = f", {duration_text(entry.least_time)} after the last time or later" if entry.least_time else ""
    yield f"again: {entry.again}{least}"
    if definition.leave_when:
        yield f"leaves when: {definition.leave_when.written}"


def _rows(steps: tuple[Step, ...], indent: str, note: Callable[[Step], str]) -> Iterator[Row]:
    for step in steps:
        yield f"{indent}{step.name}", describe(step), note(step)
        if isinstance(step, Branch):
            for word, side in (("then", step.then), ("else", step.otherwise)):
                if side:
                    yield f"{indent}{INDENT}{word}", "", ""
                    yield from _rows(side, indent + 2 * INDENT, note)


def describe(step: Step, shown_url: Callable[[str], str | None] = str) -> str:
    """What the step does, in a few words, with what is shown of the URL that it calls."""
    match step:
        case Send():
            return f"sends {step.message} ({step.message_type})" if step.message_id else f"sends {step.message}"
        case Wait():
            return f"waits {_until(step.until)}"
        case Branch():
            return _asked(step.on)
        case SetFields():
            return "sets " + ", ".join(
                f"{key} = {'-' if value is None else value}" for key, value in step.values.items()
            )
        case Unsubscribe():
            return f"unsubscribes {written_channels(step)}"
        case Call():
            return f"calls {shown_url(step.url)}"
        case Stop():
            return "stops"


def _until(until: Duration | UntilTime | UntilDate) -> str:
    match until:
        case Duration():
            return duration_text(until)
        case UntilTime(at, on):
            days = f" on {', '.join(on)}" if len(on) < 7 else ""
            return f"until {at:%H:%M}{days}"
        case UntilDate(key, offset, at, past):
            shift = f" {offset_text(offset)}" if offset else ""
            return f"until {key}{shift} at {at:%H:%M}, past: {past}"


def _asked(on: Conditions | Outcome) -> str:
    if isinstance(on, Conditions):
        return f"if {on.written}"
    link = f" {on.link}" if on.link else ""
    return f"if {on.step} was {on.did}{link} within {duration_text(on.within)}"
