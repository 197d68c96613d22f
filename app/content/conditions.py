"""One condition of a conditional: its syntax, and whether it holds for a value."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from decimal import Decimal
from typing import Any, TypeAlias

from app.clock import DATE_FORM, HOUR_FORM, OFFSET_FORM, SIXTY_FORM

# The operators of conditions: each compares a recipient's value with the operand in the source
# (docs/personalisation.md#conditionals).
#
# Text comparisons ignore case. Two numbers or two ISO dates are ordered; any other comparison of order is false. An
# absent value is empty text.

Operator: TypeAlias = Callable[[str, str, tzinfo], bool]
"""Called with the value, the operand, and the zone of times without an offset."""

# ASCII digits and a short exponent: Decimal accepts other digits too, and fails on huge exponents.
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,6})?")
_DATE = re.compile(DATE_FORM)
_TIME = rf"{HOUR_FORM}:{SIXTY_FORM}(?::{SIXTY_FORM}(?:\.[0-9]+)?)?"
_DATETIME = re.compile(rf"{DATE_FORM}[T ]{_TIME}(?:Z|[+-]{OFFSET_FORM})?")


def _has(value: str, _operand: str, _zone: tzinfo) -> bool:
    return value != ""


def _contains(value: str, operand: str, _zone: tzinfo) -> bool:
    return operand.casefold() in value.casefold()


def _exactly(value: str, operand: str, _zone: tzinfo) -> bool:
    return operand.casefold() == value.casefold()


def _includes(value: str, operand: str, _zone: tzinfo) -> bool:
    return not _items(operand).isdisjoint(_items(value))


def _includes_all(value: str, operand: str, _zone: tzinfo) -> bool:
    sought = _items(operand)
    return bool(sought) and sought <= _items(value)


def _items(text: str) -> set[str]:
    return {item.strip() for item in text.casefold().split(",")} - {""}


def _not(positive: Operator) -> Operator:
    return lambda value, operand, zone: not positive(value, operand, zone)


def _ordered(relation: Callable[[Any, Any], bool]) -> Operator:
    def holds(value: str, operand: str, zone: tzinfo) -> bool:
        value, operand = value.strip(), operand.strip()
        pair = _numbers(value, operand) or _moments(value, operand, zone)
        return pair is not None and relation(*pair)

    return holds


def _numbers(value: str, operand: str) -> tuple[Decimal, Decimal] | None:
    if _NUMBER.fullmatch(value) and _NUMBER.fullmatch(operand):
        return Decimal(value), Decimal(operand)
    return None


def _moments(value: str, operand: str, zone: tzinfo) -> tuple[date, date] | None:
    left, right = _moment(value, zone), _moment(operand, zone)
    if left is None or right is None:
        return None
    if isinstance(left, datetime) and isinstance(right, datetime):
        return left, right
    # A date without a time is the whole day, as in filters (docs/personalisation.md#conditionals).
    return _day(left), _day(right)


def _moment(text: str, zone: tzinfo) -> date | None:
    """An ISO date or datetime; one without an offset is in `zone`. None for other text and for dates that do not
    exist."""
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
        if _DATETIME.fullmatch(text):
            moment = datetime.fromisoformat(text)
            return moment if moment.tzinfo else moment.replace(tzinfo=zone)
    except ValueError:
        pass
    return None


def _day(moment: date) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


OPERATORS: Mapping[str, Operator] = {
    "HAS": _has,
    "HASNOT": _not(_has),
    "CONTAINS": _contains,
    "NOTCONTAINS": _not(_contains),
    "EXACTLY": _exactly,
    "NOTEXACTLY": _not(_exactly),
    "GREATERTHAN": _ordered(operator.gt),
    "GREATERTHANEQUAL": _ordered(operator.ge),
    "LESSTHAN": _ordered(operator.lt),
    "LESSTHANEQUAL": _ordered(operator.le),
    "INCLUDES": _includes,
    "INCLUDESALL": _includes_all,
    "NOTINCLUDES": _not(_includes),
    "NOTINCLUDESALL": _not(_includes_all),
}

# These two only test whether there is a value (docs/personalisation.md#conditionals).
OPERATORS_WITHOUT_OPERAND = frozenset({"HAS", "HASNOT"})


KEY_FORM = re.compile(r"[A-Za-z0-9_]+")


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
    return _condition(first.lower(), rest) if KEY_FORM.fullmatch(first) else None


def _condition(key: str, written: str) -> Condition | None:
    operator, colon, operand = written.partition(":")
    if operator not in OPERATORS or bool(colon) == (operator in OPERATORS_WITHOUT_OPERAND):
        return None
    return Condition(key, operator, operand)


def holds(condition: Condition, value: str, operand: str, zone: tzinfo) -> bool:
    """Whether the condition holds for a value; both sides are plain text, an absent value is empty. Times without an
    offset are in `zone`."""
    return OPERATORS[condition.operator](value, operand, zone)
