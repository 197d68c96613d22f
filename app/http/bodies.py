"""Request bodies (docs/requests.md#bodies)."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

import orjson
from flask import request
from werkzeug.exceptions import RequestEntityTooLarge

from app.errors import ServiceError

MOST_VALUES = 200_000
"""In one body: members of objects and elements of arrays. The largest requests have a tenth of them. A body of the
largest size could hold sixteen million, two bytes each as they stand there, and a gigabyte once they are made."""

_STRING_OR_NEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+|[,\[{]', re.DOTALL)

_QUOTE = ord('"')


def json_object() -> dict[str, Any]:
    """The body as a JSON object. Raises `invalid_request` (400) for a body that is no JSON in UTF-8 or is declared to
    be something else, `invalid_object` (422) for a JSON value that is no object."""
    _check_content_type()
    check_encoding()
    data = request.get_data(cache=True)
    _check_whole(data)
    if not data.strip():
        raise ServiceError("invalid_request", detail="The request has no body. Send a JSON object.")
    value = json_value(data)
    if not isinstance(value, dict):
        raise ServiceError("invalid_object", detail="The body must be a JSON object.")
    return value


def json_value(data: bytes) -> Any:
    """What the bytes stand for. Raises `invalid_request` for what is no JSON in UTF-8, or holds too many values."""
    if _has_more_values(data, MOST_VALUES):
        detail = f"The body holds more than {MOST_VALUES} values; spread them over several requests."
        raise ServiceError("invalid_request", detail=detail)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        # The reader's message never holds the content.
        where = f"{error.msg} (line {error.lineno}, column {error.colno})"
        raise ServiceError("invalid_request", detail=f"The body is not valid JSON in UTF-8: {where}.") from None


def _has_more_values(data: bytes, most: int) -> bool:
    """Whether JSON holds more values than that, found before any of them is made: each but the outermost one stands
    behind a comma or a bracket. A name is a string like others, so there are at most two of those for each value."""
    if sum(map(data.count, (b",", b"[", b"{"))) <= most:
        return False  # nearly always, and found in a small part of the time that reading takes
    most_tokens = 3 * most + 2
    tokens = values = 0
    for found in islice(_STRING_OR_NEXT.finditer(data), most_tokens):  # the commas of texts are no matter
        tokens += 1
        values += data[found.start()] != _QUOTE
    return values > most or tokens == most_tokens


def _check_whole(data: bytes) -> None:
    """The framework cuts a body of unknown length at the limit, and takes one that ends early for whole."""
    if request.content_length is not None:
        if len(data) != request.content_length:
            raise ServiceError("invalid_request", detail="The body is shorter than its Content-Length.")
    elif request.environ.get("wsgi.input_terminated") and request.environ["wsgi.input"].read(1):
        raise RequestEntityTooLarge


def check_encoding() -> None:
    """Raises `invalid_request` for a compressed body."""
    coding = request.headers.get("Content-Encoding", "").strip().lower()
    if coding not in ("", "identity"):
        raise ServiceError(
            "invalid_request", detail=f"The Content-Encoding {coding} is not supported. Send the body as it is."
        )


def _check_content_type() -> None:
    if not request.headers.get("Content-Type"):
        return
    kind = request.mimetype
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise ServiceError(
            "invalid_request", detail=f"The content type {kind} is not supported. Send application/json."
        )
