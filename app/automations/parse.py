"""Parsing a definition, as YAML and JSON give it (docs/automations.md#definition). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.automations.definition import Again, Definition, Entry, Send, Step, Wait
from app.automations.parse_steps import UNREAD, StepParser, number_id
from app.automations.parts import conditions, duration
from app.automations.shape import Check, Record, mapping, name, name_or_id, one_of, text
from app.automations.tree import check_tree
from app.automations.triggers import TRIGGERS, Action, AutomationKind
from app.errors import ErrorCollector, FieldError

KINDS: tuple[AutomationKind, ...] = ("standard", "advanced")
AGAIN: tuple[Again, ...] = ("never", "when ended", "always")
LEAST_TIME = Record({"after": duration})
DELAY, MESSAGE = "delay", "message"
"""Names of the steps of a standard automation."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A definition as far as it can be read, and what is wrong with the rest: everything that is wrong is reported
    together, once the account has been looked at, too (app/runs/references.py)."""

    document: Any
    definition: Definition
    """Names that could not be read are empty; what stands for steps says `StepParser`."""
    errors: Sequence[FieldError]
    """Each with its path."""


def read_definition(document: Any) -> Draft:
    """The definition. Raises `ServiceError` only for a document that is no mapping."""
    errors = ErrorCollector()
    definition = _read(document, StepParser(errors), {}, errors)
    check_tree(definition.steps, "steps", errors)
    return Draft(document, definition, errors.errors)


def parse_stored(document: Any) -> Definition:
    """The definition of a stored version, which has ids beside the names."""
    errors = ErrorCollector()
    ids: dict[str, Check] = {"message_id": number_id, "message_type": text}
    definition = _read(document, StepParser(errors, stored=True), ids, errors)
    errors.raise_any()
    return definition


def _read(document: Any, parser: StepParser, ids: dict[str, Check], errors: ErrorCollector) -> Definition:
    kind = _kind(document)
    required: dict[str, Check] = {"kind": one_of(KINDS), "name": name, "list": name_or_id, "trigger": _trigger(kind)}
    optional: dict[str, Check] = {"if": conditions, "again": _again}
    own: dict[AutomationKind, tuple[dict[str, Check], dict[str, Check]]] = {
        "standard": ({"message": name_or_id}, {"after": duration, **ids}),
        "advanced": ({"steps": parser.steps}, {"leave_when": conditions}),
    }
    # Without a kind, the keys of either are read.
    for one in KINDS if kind is None else (kind,):
        needed, others = own[one]
        required |= needed if kind else {}
        optional |= others if kind else {**needed, **others}
    found = Record(required, optional).read(document, "", errors)
    return _definition(found, kind or ("advanced" if "steps" in found else "standard"))


def _kind(document: Any) -> AutomationKind | None:
    """Read first, because the keys depend on it; None if it is none."""
    given = mapping(document, "").get("kind")
    return next((kind for kind in KINDS if kind == given), None)


def _definition(found: dict[str, Any], kind: AutomationKind) -> Definition:
    how_often, least_time = found.get("again", ("always" if kind == "standard" else "when ended", None))
    return Definition(
        name=found.get("name", ""),
        kind=kind,
        list=found.get("list", ""),
        action=found.get("trigger", "created"),
        entry=Entry(how_often, least_time, found.get("if")),
        steps=_standard_steps(found) if kind == "standard" else found.get("steps", ()),
        leave_when=found.get("leave_when"),
    )


def _standard_steps(found: dict[str, Any]) -> tuple[Step, ...]:
    message = found.get("message", UNREAD)
    send = Send(MESSAGE, message, found.get("message_id", 0), found.get("message_type", "email"))
    return (Wait(DELAY, found["after"]), send) if "after" in found else (send,)


def _trigger(kind: AutomationKind | None) -> Check:
    kinds = KINDS if kind is None else (kind,)
    names: dict[str, Action] = {of_kind[one]: action for action, of_kind in TRIGGERS.items() for one in kinds}

    def action_of(value: Any, path: str) -> Action:
        return names[one_of(tuple(names))(value, path)]

    return action_of


def _again(value: Any, path: str) -> Any:
    """How often, and the least time between two entries."""
    if isinstance(value, dict):
        return "always", LEAST_TIME(value, path)["after"]
    return one_of(AGAIN)(value, path), None
