"""The delimiter of a file, found from its first rows. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
"""By name, those that occur most often first."""
MOST_ROWS = 20
"""Rows that are compared."""
NAMED_IN_FILE = re.compile(r'"?sep=([^"\r\n])"?[\r\n]*')
"""A first line with which spreadsheets name the delimiter. It is no row."""

IsKnown = Callable[[str], bool]
"""Whether a column may have this name."""


def find_delimiter(sample: str, is_known: IsKnown) -> str:
    """The delimiter of a text with the first rows of a file. It is the one with which the head can be read and has the
    most names that are known, then the one with which the most rows have as many cells as the head."""
    named = NAMED_IN_FILE.match(sample)
    if named:
        return named[1]
    return max(DELIMITERS.values(), key=lambda delimiter: _fit(_first_rows(sample, delimiter), is_known))


def delimiter_name(delimiter: str) -> str:
    """The delimiter in words."""
    names = {sign: f"{name}s" for name, sign in DELIMITERS.items()}
    return names.get(delimiter, repr(delimiter))


def _fit(rows: Sequence[Sequence[str]], is_known: IsKnown) -> tuple[bool, int, float, int]:
    if not rows:
        return False, 0, 0.0, 0
    head, *others = rows
    even = sum(len(row) == len(head) for row in others) / len(others) if others else 1.0
    return len(head) > 1, sum(map(is_known, head)), even, len(head)


def _first_rows(sample: str, delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, strict=True):
            if row:
                rows.append(row)
            if len(rows) > MOST_ROWS:
                break
    except csv.Error:
        pass  # The sample may end inside a row, and one that cannot be read says nothing about those before it.
    return rows
