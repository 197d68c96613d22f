"""Cells of a CSV file, as spreadsheets can open them without harm. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from app.clock import timestamp

NUMBER = re.compile(r"-?[0-9]+(?P<part>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
FORMULA = re.compile("'*[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]")
"""The start of a text that a spreadsheet takes for a formula; some accept the full-width forms of the signs, too."""


def cell(value: Any) -> str:
    """The cell of a value in a CSV file. A text that a spreadsheet would run as a formula is prefixed with `'`, and so
    is one that seems to have the prefix already; `from_cell` removes exactly one. Numbers stay numbers, and times are
    written as the API writes them."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return timestamp(value)
    text = str(value)
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def from_cell(text: str) -> str:
    """The text of a cell, without the `'` that an export has added."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text
