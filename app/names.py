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


def check_name(name: str | None) -> str:
    """Returns the name. Raises `ServiceError` unless it has 1 to 255 characters, not all blank and without control
    characters."""
    if not name or not name.strip():
        raise ServiceError("not_empty", field="name", detail="must not be empty")
    if len(name) > LONGEST_NAME:
        raise ServiceError("too_long", field="name", detail=f"has more than {LONGEST_NAME} characters")
    if CONTROL.search(name):
        raise ServiceError("invalid_string", field="name", detail="holds a control character")
    return name
