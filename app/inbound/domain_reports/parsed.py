"""A report as it was read, whatever its form. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from app.inbound.email.fields import one_line

Kind = Literal["dmarc", "tls"]

MAX_ROWS = 500
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


def short(text: str) -> str:
    """A text of the report in a form that can be stored."""
    return one_line(text)[:LONGEST_TEXT]


def count_of(value: object) -> int:
    """A number of messages or sessions; 0 for anything else."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) <= 15 else 0
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT else 0
