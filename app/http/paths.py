"""The path of a request, and ids in it (decisions: 1.8)."""

from __future__ import annotations

import re
from urllib.parse import quote

from flask import request

from app.errors import ServiceError
from app.ids import BIGGEST

ID = re.compile(r"[0-9]{1,19}")
PLAIN = "/:@!$&'()*+,;=~"
"""Characters that a path may hold as they are (RFC 3986)."""


def request_path() -> str:
    """The request's path, percent-encoded, as links and logs can carry it."""
    return quote(request.path, safe=PLAIN)


def path_id(text: str) -> int:
    """The id that a path segment holds. Raises `not_found` for anything that cannot be one.

    Routes take the segment as text, because an id is looked at after the permission.
    """
    if not ID.fullmatch(text) or int(text) > BIGGEST:
        raise ServiceError("not_found", detail="An id in the path is not an integer of 1 or more, so nothing has it.")
    return int(text)
