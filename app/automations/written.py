"""A definition as its author would write it, in full: the form that versions are stored in and that clients read. Pure.

`parse_stored` reads it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.automations.definition import (
    TRIGGERS,
    WEEKDAYS,
    Branch,
    Call,
    Conditions,
    Definition,
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
from app.automations.parts import duration_text, offset_text

Written = dict[str, Any]


def written_definition(definition: Definition) -> Written:
    """The definition as data for JSON, with the ids of messages and webhooks where they have been found."""
    entry = definition.entry
    return {
        "name": definition.name,
        "kind": definition.kind,
        "list": definition.list,
        "trigger": TRIGGERS[definition.action][definition.kind],
        **({"if": entry.conditions.written} if entry.conditions else {}),
        "again": _again(entry),
        **({"leave_when": definition.leave_when.written} if definition.leave_when else {}),
        **(_standard(definition.steps) if definition.kind == "standard" else {"steps": _steps(definition.steps)}),
    }


def _again(entry: Entry) -> str | Written:
    return {"after": duration_text(entry.least_time)} if entry.least_time else entry.again


def _standard(steps: tuple[Step, ...]) -> Written:
    written: Written = {}
    for step in steps:
        if isinstance(step, Wait):
            written["after"] = written_wait(step)
        elif isinstance(step, Send):
            written |= {"message": step.message, **_message(step)}
    return written


def _steps(steps: tuple[Step, ...]) -> list[Written]:
    return [{"name": step.name, **_verb(step)} for step in steps]


def _verb(step: Step) -> Written:
    match step:
        case Send():
            return {"send": step.message, **_message(step)}
        case Wait():
            return {"wait": written_wait(step)}
        case Branch():
            otherwise = {"else": _steps(step.otherwise)} if step.otherwise else {}
            return {"branch": written_branch(step.on), "then": _steps(step.then), **otherwise}
        case SetFields():
            return {"set": dict(step.values)}
        case Unsubscribe():
            return {"unsubscribe": written_channels(step)}
        case Call():
            return {"call": step.url, **({"webhook_id": step.webhook_id} if step.webhook_id else {})}
        case Stop():
            return {"stop": True}


def _message(step: Send) -> Written:
    return {"message_id": step.message_id, "message_type": step.message_type} if step.message_id else {}


def written_wait(step: Wait) -> str | Written:
    """What a step waits for."""
    match step.until:
        case Duration():
            return duration_text(step.until)
        case UntilTime(at, on):
            return {"until": f"{at:%H:%M}", **({} if on == WEEKDAYS else {"days": list(on)})}
        case UntilDate(key, offset, at, past):
            return {"date": key, "offset": offset_text(offset), "at": f"{at:%H:%M}", "past": past}


def written_branch(on: Conditions | Outcome) -> Mapping[str, str]:
    """What a branch asks."""
    if isinstance(on, Conditions):
        return {"if": on.written}
    link = {"link": on.link} if on.link else {}
    return {"step": on.step, "did": on.did, **link, "within": duration_text(on.within)}


def written_channels(step: Unsubscribe) -> str:
    """By what a step unsubscribes."""
    return step.channels[0] if len(step.channels) == 1 else "all"
