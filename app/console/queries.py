"""Queries of the console's lists: what a form asks for, in the query language, and the page with what is older
(docs/console.md#lists)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from app.addresses import normalize_address
from app.query.cursors import CURSOR, CursorScope, Position

Pairs = list[tuple[str, str]]
Sought = Callable[[str], tuple[str, str]]
"""The filter of a text that somebody looks for."""

ON_A_PAGE = 50
IN_A_FILE = 1000
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
DAYS = re.compile(rf"({DAY.pattern})\.\.({DAY.pattern})")
"""The range of days that the form of a search makes."""
FIRST_DAY, LAST_DAY = "2000-01-01", "2100-01-01"
SHAPING = ("limit", "offset", "fields", "expand", "_tz", "account")
"""Parameters of the API that say how a page looks, which is for the console to say."""
BESIDE_DIGITS = {ord(character): None for character in "+ -./()"}
"""What people write before and between the digits of a number, which is stored without it."""


def canonical(pairs: Pairs, sought: Sought, time: str) -> Pairs:
    """The query of a form in the query language: without empty fields, with the text to find as a filter, and with its
    days as a range of the filter `time`."""
    given = {name: value.strip() for name, value in pairs}
    kept = [(name, value) for name, value in pairs if value and name not in ("find", "from", "to", *SHAPING)]
    if text := given.get("find"):
        kept.append(sought(text))
    first, last = given.get("from", ""), given.get("to", "")
    if first or last:
        kept.append((f"{time}:in", f"{first or FIRST_DAY}..{last or LAST_DAY}"))
    return kept


def days_of(values: Mapping[str, str], time: str) -> tuple[str, str]:
    """The days of such a query, for its form."""
    days = DAYS.fullmatch(values.get(f"{time}:in", ""))
    return (days[1], days[2]) if days else ("", "")


def of_address(text: str) -> tuple[str, str]:
    """The filter of an email address, or of a number as people write it."""
    if "@" in text:
        return "email", text
    return "mobile", normalize_address("mobile", text.translate(BESIDE_DIGITS)).key


def older_query(cursors: CursorScope, pairs: Pairs, position: Position | None) -> Pairs | None:
    """The query of the page that begins at the position; None without one."""
    filters = [one for one in pairs if one[0] not in ("offset", CURSOR)]
    return None if position is None else [*filters, (CURSOR, cursors.make(position, filters))]
