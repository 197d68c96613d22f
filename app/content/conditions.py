"""One condition of a conditional: how it is written, and whether it holds."""

import re
from dataclasses import dataclass
from datetime import tzinfo

from app.content.operators import OPERATORS, WITHOUT_OPERAND

KEY = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Condition:
    """`key` is in lower case, `operator` a name in OPERATORS, `operand` empty where the operator takes none."""

    key: str
    operator: str
    operand: str


def parse_conditions(written: str, opening_key: str) -> tuple[Condition, ...]:
    """What stands between a marker's opening and its end: conditions joined by `:OR:`
    (docs/personalisation.md#conditionals).

    A condition that names no key takes `opening_key`. The result is empty when any of them does not parse.
    """
    conditions = [_parse(part, opening_key) for part in written.split(":OR:")]
    found = tuple(condition for condition in conditions if condition)
    return found if len(found) == len(conditions) else ()


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
    """Whether it holds for a value, both sides in plain text; an absent value is empty text. Times that name no zone
    are in the given one."""
    return OPERATORS[condition.operator](value, operand, zone)
