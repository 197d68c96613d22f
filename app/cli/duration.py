"""Durations on the command line: `30m`, `12h`, `7d`, `2w`, `0`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import click

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
FORM = re.compile(rf"([0-9]{{1,9}})([{''.join(UNITS)}])")


class Duration(click.ParamType[timedelta]):
    """A duration of at most `longest`."""

    name = "duration"

    def __init__(self, longest: timedelta) -> None:
        self._longest = longest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Reads a number with its unit."""
        if isinstance(value, timedelta):
            return value
        found = FORM.fullmatch(value.strip())
        if value.strip() != "0" and not found:
            self.fail(f"{value!r} is no duration such as 30m, 12h, 7d, 2w or 0", param, ctx)
        try:
            duration = timedelta(**{UNITS[found[2]]: int(found[1])}) if found else timedelta()
        except OverflowError:
            duration = timedelta.max
        if duration > self._longest:
            self.fail(f"{value!r} is more than {self._longest.days} days", param, ctx)
        return duration
