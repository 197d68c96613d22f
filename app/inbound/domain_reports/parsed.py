"""A report as it was read, whatever its form. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import orjson

from app.inbound.email.fields import one_line

Kind = Literal["dmarc", "tls"]

MAX_ROWS = 500
MAX_ROW_BYTES = 128 * 1024
"""Sources or failures of one report that are kept one by one; further ones are only counted."""
MAX_COUNT = 2**53
LONGEST_TEXT = 255


class UnreadableReport(ValueError):
    """A document that is no report, or has more than is read; the text is for the log."""


@dataclass(frozen=True, slots=True)
class ParsedReport:
    """`passed` and `failed` are messages (DMARC) or sessions (TLS); `content` has them by source or by failure."""

    kind: Kind
    domain: str
    reporter: str
    report_id: str
    begin_time: datetime
    end_time: datetime
    passed: int
    failed: int
    content: Mapping[str, Any]


class Rows:
    """The rows of a report that are kept, up to a number and to so many bytes as JSON; further ones are counted."""

    def __init__(self, rows: Iterable[dict[str, Any]] = ()) -> None:
        self.kept: list[dict[str, Any]] = []
        self.further = 0
        self._room = MAX_ROW_BYTES
        for row in rows:
            self.add(row)

    def add(self, row: dict[str, Any]) -> None:
        """Keeps the row, or counts it; once there is one too many, no further one is kept."""
        size = 0 if self.further else len(orjson.dumps(row)) + 1
        if self.further or len(self.kept) >= MAX_ROWS or size > self._room:
            self.further += 1
        else:
            self._room -= size
            self.kept.append(row)


def short(text: str) -> str:
    """A text of the report in a form that can be stored."""
    return one_line(text)[:LONGEST_TEXT]


def count_of(value: object) -> int:
    """A number of messages or sessions; 0 for anything else."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) <= 15 else 0
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT else 0
