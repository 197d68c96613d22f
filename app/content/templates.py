"""Compiled templates that are kept: the same few messages are sent over and over, by one send each."""

from __future__ import annotations

from datetime import UTC
from functools import lru_cache
from zoneinfo import ZoneInfo

from app.content.render import Template

MAX_CACHED_LENGTH = 100_000
"""Characters of a source that stays compiled."""


def cached_template(source: str, zone: ZoneInfo | None) -> Template:
    """The template of a source, whose times are those of a zone; UTC by default."""
    return _cached(source, zone) if len(source) <= MAX_CACHED_LENGTH else Template(source, zone or UTC)


@lru_cache(maxsize=64)
def _cached(source: str, zone: ZoneInfo | None) -> Template:
    return Template(source, zone or UTC)
