"""One thing that an explanation says. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.clock import timestamp

Command = tuple[str, ...]
"""The words behind `flask --app wsgi` or `tms`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact in words, and the commands that mend it, in their order. `prevents` is whether a message to the address
    would not be sent."""

    text: str
    commands: Sequence[Command] = ()
    prevents: bool = False


def at(moment: datetime | None) -> str:
    """The moment as the API writes it."""
    return "an unknown time" if moment is None else timestamp(moment)
