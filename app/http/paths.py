"""The path of a request, and ids in it (docs/requests.md#paths-and-ids)."""

from __future__ import annotations

import re
from urllib.parse import quote

from flask import Flask, current_app, request
from werkzeug.routing import BaseConverter, Rule

from app.errors import ServiceError
from app.ids import BIGGEST

API = "v1"
PATH_WORDS_KEY = "tms.words"
UNMATCHED_ROUTE = "unmatched"
CONVERTER = re.compile(r"<\w+(?:\([^)]*\))?:")
ID = re.compile(r"[0-9]{1,19}")
PUBLIC_ID = re.compile(r"[0-9]{1,19}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
UNQUOTED_CHARACTERS = "/:@!$&'()*+,;=~"
"""Characters of a path that need no percent-encoding (RFC 3986)."""


class InstanceConverter(BaseConverter):
    """A path segment that is an id, valid or not, and no word of a route beside it: `/v1/automations/validate` has the
    methods of that route alone, and so has `/v1/transactional-sends/cancel`."""

    regex = r"(?!(?:validate|cancel)\Z)[^/]+"
    part_isolating = True  # one segment: a slash behind it changes nothing


def request_path() -> str:
    """The request's path, percent-encoded, as links and logs can carry it."""
    return quote(request.path, safe=UNQUOTED_CHARACTERS)


def first_segment() -> str:
    """The first path segment; the version, for the API."""
    return first_segment_of(request.path)


def first_segment_of(path: str) -> str:
    """The first segment of a path."""
    return path.lstrip("/").partition("/")[0]


def collect_path_words(app: Flask) -> None:
    """Collects the fixed segments of all routes, for `loggable_path`."""
    segments = {segment for rule in app.url_map.iter_rules() for segment in rule.rule.split("/")}
    app.extensions[PATH_WORDS_KEY] = frozenset(segment for segment in segments if "<" not in segment)


def route_label(rule: Rule | None) -> str:
    """The route, for metrics: there are as many as endpoints, whatever paths clients ask for."""
    return CONVERTER.sub("<", rule.rule) if rule else UNMATCHED_ROUTE


def loggable_path(path: str) -> str:
    """A path with only the fixed segments of routes and, in the API, integers and uuids: paths can contain tokens and
    secrets, even where no route expects them."""
    words = current_app.extensions[PATH_WORDS_KEY]
    is_api = first_segment_of(path) == API
    segments = path.split("/")
    return "/".join(s if s in words or (is_api and PUBLIC_ID.fullmatch(s)) else "…" for s in segments[:12])


def path_id(text: str) -> int:
    """The id in a path segment. Raises `not_found` for anything that cannot be an id.

    Routes take the segment as text, because the id is checked after the permission.
    """
    if not ID.fullmatch(text) or int(text) > BIGGEST:
        raise ServiceError(
            "not_found", detail="An id in the path is not an integer of 1 or more, so it does not exist."
        )
    return int(text)
