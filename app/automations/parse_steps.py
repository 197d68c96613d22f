"""Parsing the steps of a definition (docs/automations.md#steps). Pure."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any

from app.automations.definition import (
    WEEKDAYS,
    Branch,
    Call,
    Channel,
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
from app.automations.shape import (
    Check,
    Record,
    each,
    joined,
    kind_of,
    mapping,
    name,
    name_or_id,
    one_of,
    refuse,
    text,
    true,
)

MOST_STEPS = 100
MOST_DEPTH = 10
MOST_FIELDS = 100
LONGEST_STEP_NAME = 100
CHANNELS: dict[str, tuple[Channel, ...]] = {"email": ("email",), "mobile": ("mobile",), "all": ("email", "mobile")}
UNTIL_TIME = Record({"until": clock}, {"days": each(one_of(WEEKDAYS), len(WEEKDAYS))})
UNTIL_DATE = Record({"date": text}, {"offset": offset, "at": clock, "past": one_of(("continue", "stop", "next year"))})
OUTCOME = Record(
    {
        "step": text,
        "did": one_of(("delivered", "opened", "clicked", "bounced", "replied")),
        "within": duration,
    },
    {"link": text},
)
CONDITION = Record({"if": conditions})


def step_name(value: Any, path: str) -> str:
    """The key of a step."""
    found = name(value, path)
    if len(found) > LONGEST_STEP_NAME:
        refuse(path, "too_long", f"has more than {LONGEST_STEP_NAME} characters")
    return found


def number_id(value: Any, path: str) -> int:
    """An id in a stored definition."""
    if not isinstance(value, int) or isinstance(value, bool):
        refuse(path, "invalid_integer", "must be an id")
    return value


def _until_time(value: Any, path: str) -> UntilTime:
    found = UNTIL_TIME(value, path)
    days: tuple[Weekday, ...] = tuple(day for day in WEEKDAYS if day in found.get("days", WEEKDAYS))
    return UntilTime(found["until"], days)


def _until_date(value: Any, path: str) -> UntilDate:
    found = UNTIL_DATE(value, path)
    return UntilDate(found["date"], found.get("offset", 0), found.get("at", time(0, 0)), found.get("past", "continue"))


def _until(value: Any, path: str) -> Any:
    if isinstance(value, str):
        return duration(value, path)
    given = mapping(value, path)
    if ("until" in given) == ("date" in given):
        detail = "must be a duration such as '2 days', or have either until (a time of day) or date (a list field)"
        refuse(path, "invalid_object", detail)
    return _until_time(given, path) if "until" in given else _until_date(given, path)


def _on(value: Any, path: str) -> Any:
    if "if" in mapping(value, path):
        return CONDITION(value, path)["if"]
    outcome = OUTCOME(value, path)
    if "link" in outcome and outcome["did"] != "clicked":
        refuse(joined(path, "link"), "unexpected_field", "is only known where did is clicked")
    return Outcome(outcome["step"], outcome["did"], outcome["within"], outcome.get("link"))


def _fields(value: Any, path: str) -> dict[str, Any]:
    given = mapping(value, path)
    if not given:
        refuse(path, "not_empty", "must name a list field")
    if len(given) > MOST_FIELDS:
        refuse(path, "too_long", f"has more than {MOST_FIELDS} fields")
    return {text(key, path): _plain(item, joined(path, key)) for key, item in given.items()}


def _plain(value: Any, path: str) -> str | int | float | None:
    """YAML has dates, contacts have strings."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | date | datetime | None):
        refuse(path, "invalid_string", f"must be text or a number, not {kind_of(value)}")
    return value.isoformat() if isinstance(value, date) else value


class StepParser:
    """Parses the steps of one definition: their names must differ, and their number is bounded."""

    def __init__(self, *, stored: bool = False) -> None:
        """`stored` also takes the ids that names stood for when the version was stored."""
        self._names: set[str] = set()
        self._count = 0
        self._verbs: dict[str, tuple[Check, dict[str, Check], dict[str, Check]]] = {
            "send": (name_or_id, {}, {"message_id": number_id, "message_type": text} if stored else {}),
            "wait": (_until, {}, {}),
            "branch": (_on, {"then": self._inner}, {"else": self._inner}),
            "set": (_fields, {}, {}),
            "unsubscribe": (one_of(tuple(CHANNELS)), {}, {}),
            "call": (text, {}, {"webhook_id": number_id} if stored else {}),
            "stop": (true, {}, {}),
        }

    def steps(self, value: Any, path: str) -> tuple[Step, ...]:
        """The steps of a list."""
        parsed: tuple[Step, ...] = each(self._step, MOST_STEPS)(value, path)
        return parsed

    def _inner(self, value: Any, path: str) -> tuple[Step, ...]:
        """Below a branch: every list on the way there has an index in the path."""
        if path.count("[") >= MOST_DEPTH:
            refuse(path, "too_long", f"is a branch inside {MOST_DEPTH - 1} others, which is the most")
        return self.steps(value, path)

    def _step(self, value: Any, path: str) -> Step:
        self._count += 1
        if self._count > MOST_STEPS:
            refuse(path, "too_long", f"is a step too many: an automation has at most {MOST_STEPS}")
        given = mapping(value, path)
        verbs = [verb for verb in self._verbs if verb in given]
        if len(verbs) != 1:
            refuse(path, "invalid_object", f"must have exactly one of {', '.join(self._verbs)}")
        verb = verbs[0]
        check, required, optional = self._verbs[verb]
        found = Record({"name": self._new_name, verb: check, **required}, optional)(given, path)
        return _made(verb, found)

    def _new_name(self, value: Any, path: str) -> str:
        name = step_name(value, path)
        if name in self._names:
            refuse(path, "conflict", f"is the name of another step already: {name}")
        self._names.add(name)
        return name


def _made(verb: str, found: dict[str, Any]) -> Step:
    name, value = found["name"], found[verb]
    match verb:
        case "send":
            return Send(name, value, found.get("message_id", 0), found.get("message_type", "email"))
        case "wait":
            return Wait(name, value)
        case "branch":
            return Branch(name, value, found["then"], found.get("else", ()))
        case "set":
            return SetFields(name, value)
        case "unsubscribe":
            return Unsubscribe(name, CHANNELS[value])
        case "call":
            return Call(name, value, found.get("webhook_id", 0))
        case _:
            return Stop(name)
