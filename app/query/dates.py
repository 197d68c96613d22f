"""Conditions on dates and date-times of list fields, as comparisons of the stored ISO text.

The value of a Date Picker is `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS`. As text the first sorts before every time of its
day, so a stored date counts as its midnight: a bound at midnight is written without its time if that puts the stored
date on the same side.
"""

from __future__ import annotations

from datetime import date, datetime, time

from app.query.conditions import After, Alternative, Before, Between, Equals, FilterValue


def on_stored_text(alternative: Alternative) -> list[Alternative]:
    """The alternative as alternatives on the stored text."""
    match alternative:
        case Equals(value):
            return [Equals(text) for text in sorted({_least_text(value), _text(value)})]
        case Between(low, high):
            return [Between(_least_text(low), _text(high))]
        case After(low):
            return [After(_text(low))]
        case Before(high):
            return [Before(_least_text(high))]
    return [alternative]


def _text(value: FilterValue) -> str:
    """The stored form, to the second."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return value.isoformat() if isinstance(value, date) else str(value)


def _least_text(value: FilterValue) -> str:
    """The stored form that sorts first among those of this moment."""
    if isinstance(value, datetime) and value.time() == time.min:
        return value.date().isoformat()
    return _text(value)
