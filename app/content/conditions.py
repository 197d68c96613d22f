"""One condition of a conditional: its syntax, and whether it holds for a value."""

import re
from dataclasses import dataclass
from datetime import tzinfo

from app.content.operators import OPERATORS, WITHOUT_OPERAND

KEY = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Condition:
    """`key` is in lower case, `operator` is a name in OPERATORS, `operand` is empty if the operator has none."""

    key: str
    operator: str
    operand: str


def parse_conditions(written: str, opening_key: str) -> tuple[Condition, ...]:
    """The conditions of a marker, joined by `:OR:`
    (docs/personalisation.md#conditionals).

    A condition without a key uses `opening_key`. The result is empty if any of them is invalid.
    """
    conditions = [_parse(part, opening_key) for part in written.split(":OR:")]
    valid = tuple(condition for condition in conditions if condition)
    return valid if len(valid) == len(conditions) else ()


def _parse(part: str, opening_key: str) -> Condition | None:
    first, _, rest = part.partition(":")
    if first in OPERATORS:
        return _condition(opening_key, part)
    return _condition(first.lower(), rest) if KEY.fullmatch(first) else None


def _condition(key: str, written: str) -> Condition | None:
    operator, colon, operand = written.partition(":")
    if operator not in OPERATORS or bool(colon) == (operator in WITHOUT_OPERAND):
        return None
    return Condition(key, operator, operand)


def holds(condition: Condition, value: str, operand: str, zone: tzinfo) -> bool:
    """Whether the condition holds for a value; both sides are plain text, an absent value is empty. Times without an
    offset are in `zone`."""
    return OPERATORS[condition.operator](value, operand, zone)
