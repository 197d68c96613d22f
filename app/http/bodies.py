"""Request bodies (decisions: 1.9)."""

from __future__ import annotations

from typing import Any

import orjson
from flask import request
from werkzeug.exceptions import RequestEntityTooLarge

from app.errors import ServiceError


def json_object() -> dict[str, Any]:
    """The body as a JSON object. Raises `invalid_request` (400) for a body that is no JSON in UTF-8 or is declared to
    be something else, `invalid_object` (422) for a JSON value that is no object."""
    _check_content_type()
    data = request.get_data(cache=True)
    _check_whole(data)
    if not data.strip():
        raise ServiceError("invalid_request", detail="The request has no body. Send a JSON object.")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        # The reader's message never holds the content.
        where = f"{error.msg} (line {error.lineno}, column {error.colno})"
        raise ServiceError("invalid_request", detail=f"The body is not valid JSON in UTF-8: {where}.") from None
    if not isinstance(value, dict):
        raise ServiceError("invalid_object", detail="The body must be a JSON object.")
    return value


def _check_whole(data: bytes) -> None:
    """The framework cuts a body of unknown length at the limit, and takes one that ends early for whole."""
    if request.content_length is not None:
        if len(data) != request.content_length:
            raise ServiceError("invalid_request", detail="The body is shorter than its Content-Length.")
    elif request.environ.get("wsgi.input_terminated") and request.environ["wsgi.input"].read(1):
        raise RequestEntityTooLarge


def _check_content_type() -> None:
    if not request.headers.get("Content-Type"):
        return
    kind = request.mimetype
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise ServiceError(
            "invalid_request", detail=f"The content type {kind} is not supported. Send application/json."
        )
