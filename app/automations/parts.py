"""The values in a definition that have a syntax of their own: durations, times of day, conditions. Pure."""

from __future__ import annotations

import re
from datetime import time
from typing import Any, cast

from app.automations.definition import Conditions, Duration, Unit
from app.clock import HOUR_FORM, SIXTY_FORM
from app.content.conditions import OPERATORS, parse_conditions
from app.plain_data import nonblank_text, refuse

DURATION = re.compile(r"([0-9]{1,7}) (minute|hour|day|week)s?")
OFFSET = re.compile(r"([+-]?)([0-9]{1,4}) (day|week)s?")
CLOCK = re.compile(rf"({HOUR_FORM}):({SIXTY_FORM})")
MAX_DAYS = 400
"""The longest duration, and the largest offset: what is further away is an automation of its own."""


def duration(value: Any, path: str) -> Duration:
    """A duration such as `2 days`."""
    match = DURATION.fullmatch(nonblank_text(value, path))
    if not match:
        detail = f"must be a number of minutes, hours, days or weeks, such as '2 days', not {value!r}"
        refuse(path, "invalid_string", detail)
    read = Duration(int(match[1]), cast(Unit, f"{match[2]}s"))
    if not 0 < read.delta.total_seconds() <= MAX_DAYS * 86400:
        refuse(path, "invalid_range", f"must be at least a minute and at most {MAX_DAYS} days")
    return read


def offset(value: Any, path: str) -> int:
    """A number of days before or after a date, such as `-7 days`."""
    match = OFFSET.fullmatch(nonblank_text(value, path))
    if not match:
        refuse(path, "invalid_string", f"must be a number of days or weeks, such as '-7 days', not {value!r}")
    days = int(match[1] + match[2]) * (7 if match[3] == "week" else 1)
    if abs(days) > MAX_DAYS:
        refuse(path, "invalid_range", f"must be at most {MAX_DAYS} days")
    return days


def clock(value: Any, path: str) -> time:
    """A time of day such as `09:00`."""
    if isinstance(value, int) and not isinstance(value, bool):
        # YAML reads 10:30 as a number to the base 60.
        refuse(path, "invalid_string", "must be a time of day in quotes, such as '09:00'")
    match = CLOCK.fullmatch(nonblank_text(value, path))
    if not match:
        refuse(path, "invalid_string", f"must be a time of day such as '09:00', not {value!r}")
    return time(int(match[1]), int(match[2]))


def conditions(value: Any, path: str) -> Conditions:
    """Conditions joined by `:OR:`; one without a key is about the key of the first."""
    written = nonblank_text(value, path)
    first = parse_conditions(written.partition(":OR:")[0], "")
    parsed = parse_conditions(written, first[0].key) if first and first[0].key else ()
    if not parsed:
        detail = f"must be conditions such as 'plan:EXACTLY:gold', joined by :OR:; operators are {', '.join(OPERATORS)}"
        refuse(path, "invalid_string", detail)
    return Conditions(written, parsed)


def duration_text(value: Duration) -> str:
    """The duration as `duration` reads it."""
    return _counted(value.amount, value.unit)


def offset_text(days: int) -> str:
    """The offset as `offset` reads it."""
    return _counted(days, "days")


def _counted(amount: int, unit: str) -> str:
    return f"{amount} {unit.removesuffix('s') if abs(amount) == 1 else unit}"
