"""Renders every failure of a request as the API's error body (docs/requests.md#errors)."""

from __future__ import annotations

import logging
from typing import Any

from flask import Flask, Response, current_app, request
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound, RequestEntityTooLarge

from app.clock import this_second, timestamp
from app.db.outage import OutcomeUnknown, log_failure
from app.errors import CATALOGUE, MAX_LISTED_ERRORS, Code, FieldError, ServiceError
from app.http.console.pages import error_page as console_error_page
from app.http.console.pages import is_console
from app.http.context import method_label, request_id
from app.http.html_pages import error_page, expects_html
from app.http.paths import loggable_path, request_path
from app.http.repetition import repeats_later
from app.http.responses import json_response

logger = logging.getLogger(__name__)

RETRY_AFTER = 5
"""Seconds that a client is asked to wait after an unforeseen failure."""

OUTCOME_UNKNOWN = (
    "The database was lost while it confirmed this change, so it may have been made. Repeat the request after as many "
    "seconds as Retry-After says, with the same Idempotency-Key, where it has one: then nothing is done twice."
)

MAX_ECHO = 1000
"""Characters of a request that an error repeats."""


def error_page_path(code: Code) -> str:
    """The page that documents the error: one per type, with an anchor per code."""
    return f"/docs/errors/{code.type}#{code.code}"


def render(error: ServiceError) -> Response:
    """The response for a `ServiceError` (docs/requests.md#errors)."""
    code = CATALOGUE[error.code]
    if is_console():
        return console_error_page(error, code, _headers(error, code))
    if expects_html(error):
        return error_page(code, _headers(error, code))
    body = error_body(error, request_id(), request.environ["REQUEST_METHOD"], request_path())
    return json_response(body, code.status, _headers(error, code))


def error_body(error: ServiceError, id_: str, method: str, path: str) -> dict[str, Any]:
    """The error body of a request: its id, its method as it was sent, and its path."""
    first = error.errors[0]
    code = CATALOGUE[first.code]
    body: dict[str, Any] = {
        "id": id_,
        "method": _shortened(method),
        "status": code.status,
        "type": code.type,
        "code": code.code,
        "message": code.message,
        "developer_message": _shortened(first.developer_message),
    }
    body.update(_location(first))
    body["timestamp"] = timestamp(this_second())
    if error.conflict_fields:
        body["fields"] = {name: dict(holder) for name, holder in error.conflict_fields.items()}
    body["_links"] = {"self": {"href": path}, "error": {"href": error_page_path(code)}}
    if len(error.errors) > 1:
        body["_embedded"] = {"errors": [_listed(field_error) for field_error in error.errors[:MAX_LISTED_ERRORS]]}
    return body


def _location(error: FieldError) -> dict[str, Any]:
    location = {"field": _shortened(error.field), "collection": error.collection, "index": error.index}
    return {name: value for name, value in location.items() if value is not None}


def _listed(error: FieldError) -> dict[str, Any]:
    return {
        "code": error.code,
        "message": CATALOGUE[error.code].message,
        "developer_message": _shortened(error.developer_message),
        "field": _shortened(error.field),
        "collection": error.collection,
        "index": error.index,
    }


def _shortened(text: str | None) -> str | None:
    """Shortens what is longer than any name of this API: names of attributes come from the client."""
    return text if text is None or len(text) <= MAX_ECHO else text[: MAX_ECHO - 1] + "…"


def _headers(error: ServiceError, code: Code) -> dict[str, str]:
    headers = dict(error.headers)
    if error.retry_after is not None or code.status == 503:
        headers["Retry-After"] = str(RETRY_AFTER if error.retry_after is None else error.retry_after)
    if code.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return headers


def from_http_exception(error: HTTPException) -> ServiceError:
    """The catalogue's error for one that Flask or Werkzeug raised."""
    if isinstance(error, NotFound):
        return ServiceError("not_found", detail="No endpoint has this path; the reference at /docs shows all of them.")
    if isinstance(error, MethodNotAllowed):
        allowed = ", ".join(sorted({*(error.valid_methods or ()), "OPTIONS"}))
        return ServiceError("method_not_allowed", headers={"Allow": allowed})
    if isinstance(error, RequestEntityTooLarge):
        limit = current_app.config["MAX_CONTENT_LENGTH"]
        return ServiceError("invalid_request", detail=f"The body is too large: this service takes {limit:,} bytes.")
    if error.code is not None and error.code < 500:
        return ServiceError("invalid_request")
    return ServiceError("service_unavailable")


def register(app: Flask) -> None:
    """Registers the error handlers."""
    app.register_error_handler(ServiceError, render)
    app.register_error_handler(HTTPException, lambda error: render(from_http_exception(error)))
    app.register_error_handler(Exception, _unforeseen)


def _unforeseen(error: Exception) -> Response:
    """The client gets only the request id (docs/requests.md#errors). The traceback is logged, except in
    outages of the database, which may affect hundreds of requests."""
    if repeats_later(error):
        return Response()
    extra = {"method": method_label(request.method), "path": loggable_path(request.path)}
    if isinstance(error, SQLAlchemyError):
        log_failure(logger, "request failed", error, **extra)
    else:
        logger.error("unforeseen failure", exc_info=error, extra=extra)
    return render(
        ServiceError("service_unavailable", detail=OUTCOME_UNKNOWN if isinstance(error, OutcomeUnknown) else None)
    )
