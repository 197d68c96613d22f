"""Request bodies (docs/requests.md#bodies)."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl

import orjson
from flask import request
from werkzeug.exceptions import RequestEntityTooLarge

from app.errors import ServiceError

MAX_VALUES = 200_000
"""Members of objects and elements of arrays in one body. The largest valid requests have a tenth of them. A body of the
maximum size could contain sixteen million, of two bytes each in JSON and a gigabyte in total once parsed."""

NO_MEMORY = "Not enough memory"
"""What orjson says then, as if the JSON were to blame."""

_STRING_OR_NEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+|[,\[{]', re.DOTALL)

_QUOTE = ord('"')


def json_object() -> dict[str, Any]:
    """The body as a JSON object. Raises `invalid_request` (400) for a body that is not JSON in UTF-8 or is declared to
    be something else, `invalid_object` (422) for a JSON value that is not an object."""
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


def form_fields(max_bytes: int, max_fields: int) -> list[tuple[str, str]]:
    """The fields of a form, in their order; a body of another type has none that a form would have. Raises
    `invalid_request` for a body that is compressed, too large or not whole, and `too_long` for too many fields."""
    request.max_content_length = min(max_bytes, request.max_content_length or max_bytes)
    check_encoding()
    data = request.get_data()
    _check_whole(data)
    try:
        return parse_qsl(data.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=max_fields)
    except ValueError:
        raise ServiceError("too_long", detail=f"The form has more than {max_fields} fields.") from None


def json_value(data: bytes) -> Any:
    """The parsed JSON. Raises `invalid_request` for bytes that are not JSON in UTF-8 or have too many values, and
    `MemoryError`."""
    if _has_more_values(data, MAX_VALUES):
        detail = f"The body holds more than {MAX_VALUES} values; spread them over several requests."
        raise ServiceError("invalid_request", detail=detail)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith(NO_MEMORY):
            raise MemoryError(error.msg) from None
        # The parser's message never contains the content.
        position = f"{error.msg} (line {error.lineno}, column {error.colno})"
        raise ServiceError("invalid_request", detail=f"The body is not valid JSON in UTF-8: {position}.") from None


def _has_more_values(data: bytes, limit: int) -> bool:
    """Whether the JSON has more values than that, counted before any of them is created: each but the outermost one
    follows a comma or a bracket. A name is a string like others, so there are at most two strings per value."""
    if sum(map(data.count, (b",", b"[", b"{"))) <= limit:
        return False  # true for nearly all bodies, in a small part of the time of parsing
    max_tokens = 3 * limit + 2
    tokens = values = 0
    for token in islice(_STRING_OR_NEXT.finditer(data), max_tokens):  # commas inside strings do not count
        tokens += 1
        values += data[token.start()] != _QUOTE
    return values > limit or tokens == max_tokens


def _check_whole(data: bytes) -> None:
    """Flask truncates a body of unknown length at the limit, and accepts one that ends early as complete."""
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
    media_type = request.mimetype
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise ServiceError(
            "invalid_request", detail=f"The content type {media_type} is not supported. Send application/json."
        )
