"""Runs the WSGI application for one request, in a thread."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

import orjson
from gunicorn.config import Config
from gunicorn.http import wsgi

from app.errors import ServiceError
from app.http.context import FAULT_KEY, SHARED_KEY
from app.http.errors import RETRY_AFTER, error_body
from app.http.repetition import ATTEMPTS_KEY
from app.http.responses import JSON
from app.http.server.connection import Connection
from app.http.server.outgoing import Stream
from app.http.server.request import Request
from app.infrastructure import logs

logger = logging.getLogger(__name__)

BODILESS_STATUSES = (204, 304)
"""Statuses without a body."""

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


class Repetition(Exception):
    """The application asks for the request once more, after so many seconds, instead of answering it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


def respond(connection: Connection, request: Request, application: Application, cfg: Config, *, last: bool) -> bool:
    """Queues the application's response on the connection; True when the connection is kept alive. Raises
    `Repetition`."""
    try:
        keep_alive = _run(connection, request, application, cfg, last=last)
    except Repetition:
        raise
    except Exception:  # the application answers its own failures; this one is outside it
        logger.exception("cannot answer a request")
        connection.discard_output()
        connection.sendall(_fallback_response(request))
        keep_alive = False
    finally:
        logs.request_id.set(None)  # the thread's next log line belongs to another request
    connection.flush()
    if connection.unsent or connection.stream is not None:
        connection.identify(request)
    return keep_alive


def _run(connection: Connection, request: Request, application: Application, cfg: Config, *, last: bool) -> bool:
    response, environ = wsgi.create(request, connection, connection.client, connection.server, cfg)
    environ["wsgi.multithread"] = True
    environ[ATTEMPTS_KEY] = request.attempts
    if request.fault is not None:
        environ[FAULT_KEY] = request.fault
    if last:
        response.force_close()
    parts = application(environ, response.start_response)
    if request.attempts.pause is not None:
        raise Repetition(request.attempts.pause)
    if _is_streamed(request, response):
        _begin_stream(connection, response, parts)
        return not response.should_close()
    try:
        for part in parts:
            response.write(part)
        response.close()
    finally:
        if hasattr(parts, "close"):
            parts.close()
    if SHARED_KEY in environ:
        connection.share_output()
    return not response.should_close()


def _is_streamed(request: Request, response: Any) -> bool:
    """Whether nobody knows yet how long the body is."""
    return (
        response.response_length is None and request.method != "HEAD" and response.status_code not in BODILESS_STATUSES
    )


def _begin_stream(connection: Connection, response: Any, parts: Iterable[bytes]) -> None:
    """Queues the beginning. Until there is one, a failure is answered like any other."""
    stream = Stream(parts, framed=response.chunked)
    try:
        beginning = stream.produce()
        response.send_headers()
    except BaseException:
        stream.close()
        raise
    connection.sendall(beginning)
    if stream.has_ended:
        stream.close()
    else:
        connection.stream = stream


def _fallback_response(request: Request) -> bytes:
    error = ServiceError("service_unavailable")
    request_id = uuid.uuid4().hex
    body = orjson.dumps(error_body(error, request_id, str(request.method), str(request.path)))
    head = (
        f"HTTP/1.1 503 {HTTPStatus.SERVICE_UNAVAILABLE.phrase}",
        f"Content-Type: {JSON}",
        f"Content-Length: {len(body)}",
        f"X-Request-Id: {request_id}",
        f"Retry-After: {RETRY_AFTER}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode("latin-1") + (b"" if request.method == "HEAD" else body)
