"""Validation of the names of accounts, keys, lists, messages and groups."""

from __future__ import annotations

import re

from app.errors import ServiceError

LONGEST_NAME = 255
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Line breaks, terminal control characters and surrogates."""


def strip_name(name: str | None) -> str:
    """The name without surrounding white space. Raises `ServiceError` like `check_name`."""
    return check_name(name.strip() if name else name)


def check_name(name: str | None, field: str = "name", longest: int = LONGEST_NAME) -> str:
    """Returns the name. Raises `ServiceError` unless it has 1 to `longest` characters, not all blank and without
    control characters."""
    if not name or not name.strip():
        raise ServiceError("not_empty", field=field, detail="must not be empty")
    return check_line(name, field, longest)


def check_line(text: str, field: str, longest: int) -> str:
    """Returns the text. Raises `too_long` or `invalid_string` unless it is one line of at most so many characters."""
    if len(text) > longest:
        raise ServiceError("too_long", field=field, detail=f"has more than {longest} characters")
    if CONTROL.search(text):
        raise ServiceError("invalid_string", field=field, detail="contains a control character")
    return text
