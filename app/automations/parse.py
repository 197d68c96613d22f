"""Parsing a definition, as YAML and JSON give it (docs/automations.md#definition). Pure."""

from __future__ import annotations

from typing import Any, cast

from app.automations.definition import Again, Definition, Entry, Send, Step, Wait
from app.automations.parse_steps import StepParser, number_id
from app.automations.parts import conditions, duration
from app.automations.shape import Check, Record, mapping, name, name_or_id, one_of, text
from app.automations.tree import check_tree
from app.automations.triggers import TRIGGERS, Action, AutomationKind
from app.errors import ErrorCollector

KINDS: tuple[AutomationKind, ...] = ("standard", "advanced")
AGAIN: tuple[Again, ...] = ("never", "when ended", "always")
LEAST_TIME = Record({"after": duration})
KEYS = ("name", "list", "trigger", "message", "if", "again", "after", "leave_when", "steps")
"""Those of both kinds but `kind` itself."""
DELAY, MESSAGE = "delay", "message"
"""Names of the steps of a standard automation."""


def parse_definition(document: Any) -> Definition:
    """The definition. Raises `ServiceError` with all errors, each with its path."""
    definition = _parse(document, StepParser(), {})
    errors = ErrorCollector()
    check_tree(definition.steps, "steps", errors)
    errors.raise_any()
    return definition


def parse_stored(document: Any) -> Definition:
    """The definition of a stored version, which has ids beside the names."""
    return _parse(document, StepParser(stored=True), {"message_id": number_id, "message_type": text})


def _parse(document: Any, parser: StepParser, ids: dict[str, Check]) -> Definition:
    kind = _kind(document)
    required: dict[str, Check] = {"name": name, "kind": one_of(KINDS), "list": name_or_id, "trigger": _trigger(kind)}
    if kind == "standard":
        found = Record(
            {**required, "message": name_or_id}, {"if": conditions, "again": _again, "after": duration, **ids}
        )(document, "")
        return _definition(found, _standard_steps(found), "always")
    optional: dict[str, Check] = {"if": conditions, "again": _again, "leave_when": conditions}
    found = Record({**required, "steps": parser.steps}, optional)(document, "")
    return _definition(found, found["steps"], "when ended")


def _kind(document: Any) -> AutomationKind:
    """Read first, because the keys depend on it. Without it, only keys that neither kind has are unknown."""
    given = mapping(document, "")
    if given.get("kind") not in KINDS:
        Record({"kind": one_of(KINDS)}, dict.fromkeys(KEYS, lambda value, _: value))(given, "")
    return cast(AutomationKind, given["kind"])


def _definition(found: dict[str, Any], steps: tuple[Step, ...], again: Again) -> Definition:
    how_often, least_time = found.get("again", (again, None))
    return Definition(
        name=found["name"],
        kind=found["kind"],
        list=found["list"],
        action=found["trigger"],
        entry=Entry(how_often, least_time, found.get("if")),
        steps=steps,
        leave_when=found.get("leave_when"),
    )


def _standard_steps(found: dict[str, Any]) -> tuple[Step, ...]:
    send = Send(MESSAGE, found["message"], found.get("message_id", 0), found.get("message_type", "email"))
    return (Wait(DELAY, found["after"]), send) if "after" in found else (send,)


def _trigger(kind: AutomationKind) -> Check:
    names = {of_kind[kind]: action for action, of_kind in TRIGGERS.items()}

    def action_of(value: Any, path: str) -> Action:
        return names[one_of(tuple(names))(value, path)]

    return action_of


def _again(value: Any, path: str) -> Any:
    """How often, and the least time between two entries."""
    if isinstance(value, dict):
        return "always", LEAST_TIME(value, path)["after"]
    return one_of(AGAIN)(value, path), None
