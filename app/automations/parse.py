"""Parsing a definition, as YAML and JSON give it (docs/automations.md#definition). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from app.automations.definition import (
    TRIGGERS,
    WEEKDAYS,
    Action,
    Again,
    AutomationKind,
    Branch,
    Call,
    Channel,
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
    Weekday,
)
from app.automations.parts import clock, conditions, duration, offset
from app.automations.tree import check_tree
from app.errors import ErrorCollector, FieldError, ServiceError
from app.plain_data import (
    Check,
    Record,
    joined,
    kind_of,
    mapping,
    name,
    name_or_id,
    nonblank_text,
    one_of,
    refuse,
    some,
    true,
)

# Parsing the steps of a definition (docs/automations.md#steps). Pure.

MAX_STEPS = 100
MAX_DEPTH = 10
MAX_FIELDS = 100
MAX_STEP_NAME_LENGTH = 100
UNREAD_MESSAGE = ""
"""What stands for a message that could not be read; none has this name."""
NO_CONDITIONS = Conditions("", ())
"""What stands for conditions that could not be read."""
DEFAULT_DURATION = Duration(1, "days")
"""What stands for a duration that could not be read."""
CHANNELS: dict[str, tuple[Channel, ...]] = {"email": ("email",), "mobile": ("mobile",), "all": ("email", "mobile")}
UNTIL_TIME_RECORD = Record({"until": clock}, {"days": some(one_of(WEEKDAYS), len(WEEKDAYS))})
UNTIL_DATE_RECORD = Record(
    {"date": nonblank_text}, {"offset": offset, "at": clock, "past": one_of(("continue", "stop", "next year"))}
)
OUTCOME_RECORD = Record(
    {
        "step": nonblank_text,
        "did": one_of(("delivered", "opened", "clicked", "bounced", "replied")),
        "within": duration,
    },
    {"link": nonblank_text},
)
CONDITION_RECORD = Record({"if": conditions})


def step_name(value: Any, path: str) -> str:
    """The key of a step."""
    text = name(value, path)
    if len(text) > MAX_STEP_NAME_LENGTH:
        refuse(path, "too_long", f"has more than {MAX_STEP_NAME_LENGTH} characters")
    return text


def number_id(value: Any, path: str) -> int:
    """An id in a stored definition."""
    if not isinstance(value, int) or isinstance(value, bool):
        refuse(path, "invalid_integer", "must be an id")
    return value


def is_read(step: Step) -> bool:
    """Whether what the step does could be read."""
    return not (isinstance(step, Send) and step.message == UNREAD_MESSAGE)


def _until_time(value: Any, path: str) -> UntilTime:
    fields = UNTIL_TIME_RECORD(value, path)
    days: tuple[Weekday, ...] = tuple(day for day in WEEKDAYS if day in fields.get("days", WEEKDAYS))
    return UntilTime(fields["until"], days)


def _plain(value: Any, path: str) -> str | int | float | None:
    """YAML has dates, contacts have strings."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | date | datetime | None):
        refuse(path, "invalid_string", f"must be text or a number, not {kind_of(value)}")
    return value.isoformat() if isinstance(value, date) else value


class StepParser:
    """Parses the steps of one definition: their names must differ, and their number is bounded.

    Whatever cannot be read is collected in `errors`, and something without an error of its own stands for it, so that
    everything else is checked in its place: for a step one that sends `UNREAD_MESSAGE`, for its name its path.
    """

    def __init__(self, errors: ErrorCollector, *, stored: bool = False) -> None:
        """`stored` also takes the ids that names stood for when the version was stored."""
        self._errors = errors
        self._names: set[str] = set()
        self._count = 0
        self._verbs: dict[str, tuple[Check, dict[str, Check], dict[str, Check]]] = {
            "send": (name_or_id, {}, {"message_id": number_id, "message_type": nonblank_text} if stored else {}),
            "wait": (self._until, {}, {}),
            "branch": (self._on, {"then": self._inner}, {"else": self._inner}),
            "set": (self._fields, {}, {}),
            "unsubscribe": (one_of(tuple(CHANNELS)), {}, {}),
            "call": (nonblank_text, {}, {"webhook_id": number_id} if stored else {}),
            "stop": (true, {}, {}),
        }

    def steps(self, value: Any, path: str) -> tuple[Step, ...]:
        """The steps of a list."""
        parsed: tuple[Step, ...] = some(self._step, MAX_STEPS)(value, path)
        return parsed

    def _inner(self, value: Any, path: str) -> tuple[Step, ...]:
        """Below a branch: every list on the way there has an index in the path."""
        if path.count("[") >= MAX_DEPTH:
            refuse(path, "too_long", f"is nested too deep: a step can be inside at most {MAX_DEPTH - 1} branches")
        return self.steps(value, path)

    def _step(self, value: Any, path: str) -> Step:
        try:
            verb, fields = self._read(value, path)
        except ServiceError as error:
            self._errors.errors += error.errors
            return Send(path, UNREAD_MESSAGE)
        return _made(verb, {"name": path, **fields})

    def _read(self, value: Any, path: str) -> tuple[str | None, dict[str, Any]]:
        """What the step does, None unless it is one thing, and its values."""
        self._count += 1
        if self._count > MAX_STEPS:
            refuse(
                path,
                "too_long",
                f"exceeds the maximum of {MAX_STEPS} steps of an automation",
            )
        given = mapping(value, path)
        verbs = [verb for verb in self._verbs if verb in given]
        if len(verbs) == 1:
            check, required, optional = self._verbs[verbs[0]]
            record = Record({"name": self._new_name, verbs[0]: check, **required}, optional)
            return verbs[0], record.read(given, path, self._errors)
        self._errors.add("invalid_object", field=path, detail=f"must have exactly one of {', '.join(self._verbs)}")
        all_checks = {key: check for verb in self._verbs for key, check in self._checks(verb).items()}
        return None, Record({"name": self._new_name}, all_checks).read(given, path, self._errors)

    def _checks(self, verb: str) -> dict[str, Check]:
        check, required, optional = self._verbs[verb]
        return {verb: check, **required, **optional}

    def _new_name(self, value: Any, path: str) -> str:
        name = step_name(value, path)
        if name in self._names:
            refuse(path, "conflict", f"is already the name of another step: {name}")
        self._names.add(name)
        return name

    def _until(self, value: Any, path: str) -> Any:
        if isinstance(value, str):
            return duration(value, path)
        given = mapping(value, path)
        if ("until" in given) == ("date" in given):
            detail = "must be a duration such as '2 days', or have either until (a time of day) or date (a list field)"
            refuse(path, "invalid_object", detail)
        return _until_time(given, path) if "until" in given else self._until_date(given, path)

    def _until_date(self, value: Any, path: str) -> Any:
        fields = UNTIL_DATE_RECORD.read(value, path, self._errors)
        if "date" not in fields:
            return DEFAULT_DURATION
        optional = fields.get("offset", 0), fields.get("at", time(0, 0)), fields.get("past", "continue")
        return UntilDate(fields["date"], *optional)

    def _on(self, value: Any, path: str) -> Any:
        if "if" in mapping(value, path):
            return CONDITION_RECORD.read(value, path, self._errors).get("if", NO_CONDITIONS)
        fields = OUTCOME_RECORD.read(value, path, self._errors)
        if "link" in fields and fields.get("did", "clicked") != "clicked":
            detail = "is only allowed if did is clicked"
            self._errors.add("unexpected_field", field=joined(path, "link"), detail=detail)
        if "step" not in fields:
            return NO_CONDITIONS
        # What becomes of every message stands for what could not be read.
        return Outcome(
            fields["step"], fields.get("did", "delivered"), fields.get("within", DEFAULT_DURATION), fields.get("link")
        )

    def _fields(self, value: Any, path: str) -> dict[str, Any]:
        given = mapping(value, path)
        if not given:
            refuse(path, "not_empty", "must name a list field")
        if len(given) > MAX_FIELDS:
            refuse(path, "too_long", f"has more than {MAX_FIELDS} fields")
        values: dict[str, Any] = {}
        for key, item in given.items():
            try:
                name = nonblank_text(key, path)
                values[name] = None
                values[name] = _plain(item, joined(path, name))
            except ServiceError as error:
                self._errors.errors += error.errors
        return values


def _made(verb: str | None, fields: dict[str, Any]) -> Step:
    name = fields["name"]
    if verb == "branch":
        return Branch(name, fields.get("branch", NO_CONDITIONS), fields.get("then", ()), fields.get("else", ()))
    if verb is None or verb not in fields:
        return Send(name, UNREAD_MESSAGE)
    value = fields[verb]
    match verb:
        case "send":
            return Send(name, value, fields.get("message_id", 0), fields.get("message_type", "email"))
        case "wait":
            return Wait(name, value)
        case "set":
            return SetFields(name, value)
        case "unsubscribe":
            return Unsubscribe(name, CHANNELS[value])
        case "call":
            return Call(name, value, fields.get("webhook_id", 0))
        case _:
            return Stop(name)


KINDS: tuple[AutomationKind, ...] = ("standard", "advanced")
AGAIN_OPTIONS: tuple[Again, ...] = ("never", "when ended", "always")
LEAST_TIME_RECORD = Record({"after": duration})
DELAY_STEP, MESSAGE_STEP = "delay", "message"
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
    ids: dict[str, Check] = {"message_id": number_id, "message_type": nonblank_text}
    definition = _read(document, StepParser(errors, stored=True), ids, errors)
    errors.raise_any()
    return definition


def _read(document: Any, parser: StepParser, ids: dict[str, Check], errors: ErrorCollector) -> Definition:
    kind = _kind(document)
    required: dict[str, Check] = {"kind": one_of(KINDS), "name": name, "list": name_or_id, "trigger": _trigger(kind)}
    optional: dict[str, Check] = {"if": conditions, "again": _again}
    checks_by_kind: dict[AutomationKind, tuple[dict[str, Check], dict[str, Check]]] = {
        "standard": ({"message": name_or_id}, {"after": duration, **ids}),
        "advanced": ({"steps": parser.steps}, {"leave_when": conditions}),
    }
    # Without a kind, the keys of either are read.
    for each_kind in KINDS if kind is None else (kind,):
        needed, others = checks_by_kind[each_kind]
        required |= needed if kind else {}
        optional |= others if kind else {**needed, **others}
    fields = Record(required, optional).read(document, "", errors)
    return _definition(fields, kind or ("advanced" if "steps" in fields else "standard"))


def _kind(document: Any) -> AutomationKind | None:
    """Read first, because the keys depend on it; None if it is none."""
    given = mapping(document, "").get("kind")
    return next((kind for kind in KINDS if kind == given), None)


def _definition(fields: dict[str, Any], kind: AutomationKind) -> Definition:
    how_often, least_time = fields.get("again", ("always" if kind == "standard" else "when ended", None))
    return Definition(
        name=fields.get("name", ""),
        kind=kind,
        list=fields.get("list", ""),
        action=fields.get("trigger", "created"),
        entry=Entry(how_often, least_time, fields.get("if")),
        steps=_standard_steps(fields) if kind == "standard" else fields.get("steps", ()),
        leave_when=fields.get("leave_when"),
    )


def _standard_steps(fields: dict[str, Any]) -> tuple[Step, ...]:
    message = fields.get("message", UNREAD_MESSAGE)
    send = Send(MESSAGE_STEP, message, fields.get("message_id", 0), fields.get("message_type", "email"))
    return (Wait(DELAY_STEP, fields["after"]), send) if "after" in fields else (send,)


def _trigger(kind: AutomationKind | None) -> Check:
    kinds = KINDS if kind is None else (kind,)
    names: dict[str, Action] = {
        names_by_kind[each_kind]: action for action, names_by_kind in TRIGGERS.items() for each_kind in kinds
    }

    def action_of(value: Any, path: str) -> Action:
        return names[one_of(tuple(names))(value, path)]

    return action_of


def _again(value: Any, path: str) -> Any:
    """How often, and the least time between two entries."""
    if isinstance(value, dict):
        return "always", LEAST_TIME_RECORD(value, path)["after"]
    return one_of(AGAIN_OPTIONS)(value, path), None
