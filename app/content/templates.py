"""Compiled templates that are kept: the same few messages are sent over and over, by one send each."""

from __future__ import annotations

from datetime import UTC
from functools import lru_cache
from zoneinfo import ZoneInfo

from app.content.render import Template

LONGEST_REMEMBERED = 100_000
"""Characters of a source that stays compiled."""


def template(source: str, zone: ZoneInfo | None) -> Template:
    """The template of a source, whose times are those of a zone; UTC by default."""
    return _remembered(source, zone) if len(source) <= LONGEST_REMEMBERED else Template(source, zone or UTC)


@lru_cache(maxsize=64)
def _remembered(source: str, zone: ZoneInfo | None) -> Template:
    return Template(source, zone or UTC)
