"""The path of a request, and ids in it (docs/requests.md#paths-and-ids)."""

from __future__ import annotations

import re
from urllib.parse import quote

from flask import Flask, current_app, request

from app.errors import ServiceError
from app.ids import BIGGEST

API = "v1"
WORDS = "tms.words"
ID = re.compile(r"[0-9]{1,19}")
PUBLIC_ID = re.compile(r"[0-9]{1,19}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
PLAIN = "/:@!$&'()*+,;=~"
"""Characters that a path may hold as they are (RFC 3986)."""


def request_path() -> str:
    """The request's path, percent-encoded, as links and logs can carry it."""
    return quote(request.path, safe=PLAIN)


def first_segment() -> str:
    """What the path begins with; the version, for the API."""
    return request.path.lstrip("/").partition("/")[0]


def learn_words(app: Flask) -> None:
    """Notes the words of the application's own paths, for `loggable_path`."""
    segments = {segment for rule in app.url_map.iter_rules() for segment in rule.rule.split("/")}
    app.extensions[WORDS] = frozenset(segment for segment in segments if "<" not in segment)


def loggable_path() -> str:
    """The path as a log may keep it: paths hold tokens and secrets, also in places where no route expects them. So only
    the words of the routes stand in it, and in the API integers and uuids."""
    words = current_app.extensions[WORDS]
    is_api = first_segment() == API
    segments = request.path.split("/")
    return "/".join(one if one in words or (is_api and PUBLIC_ID.fullmatch(one)) else "…" for one in segments[:12])


def path_id(text: str) -> int:
    """The id that a path segment holds. Raises `not_found` for anything that cannot be one.

    Routes take the segment as text, because an id is looked at after the permission.
    """
    if not ID.fullmatch(text) or int(text) > BIGGEST:
        raise ServiceError("not_found", detail="An id in the path is not an integer of 1 or more, so nothing has it.")
    return int(text)
