"""Conditions on dates and date-times of list fields, as comparisons of the ISO text that is stored.

A Date Picker holds `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS`. As text the first sorts before every time of its day, so a
stored date counts as the midnight that it begins with: a bound at midnight is written without its time wherever that
takes the stored date to the same side.
"""

from __future__ import annotations

from datetime import date, datetime, time

from app.query.conditions import After, Alternative, Before, Between, Equals, FilterValue


def on_stored_text(alternative: Alternative) -> list[Alternative]:
    """The same condition on the stored text."""
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
    """The least text that stands for this moment."""
    if isinstance(value, datetime) and value.time() == time.min:
        return value.date().isoformat()
    return _text(value)
