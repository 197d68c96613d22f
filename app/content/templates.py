"""A cache of compiled templates: the same few messages are sent over and over, each time by another send."""

from __future__ import annotations

from datetime import UTC
from functools import lru_cache
from zoneinfo import ZoneInfo

from app.content.render import Template

MAX_CACHED_LENGTH = 100_000
"""Characters of a source whose template is cached."""


def cached_template(source: str, zone: ZoneInfo | None) -> Template:
    """The template of a source; its times are in `zone`, by default UTC."""
    return _cached(source, zone) if len(source) <= MAX_CACHED_LENGTH else Template(source, zone or UTC)


@lru_cache(maxsize=64)
def _cached(source: str, zone: ZoneInfo | None) -> Template:
    return Template(source, zone or UTC)
