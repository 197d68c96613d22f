"""The making of one answer, in a thread."""

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
from app.http.context import FAULT
from app.http.errors import RETRY_AFTER, error_body
from app.http.responses import JSON
from app.http.server.connection import Connection
from app.http.server.request import Request
from app.infrastructure import logs

logger = logging.getLogger(__name__)

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


def answer(connection: Connection, request: Request, application: Application, cfg: Config, *, last: bool) -> bool:
    """Has the application answer the request; True when a further one may come over the connection."""
    try:
        keep = _answer(connection, request, application, cfg, last=last)
    except Exception:  # the application answers its own failures; this one is of what stands around it
        logger.exception("cannot answer a request")
        connection.recall()
        connection.sendall(_last_resort(request))
        keep = False
    finally:
        logs.request_id.set(None)  # the thread's next line is not of this request
    connection.flush()
    return keep


def _answer(connection: Connection, request: Request, application: Application, cfg: Config, *, last: bool) -> bool:
    response, environ = wsgi.create(request, connection, connection.client, connection.server, cfg)
    environ["wsgi.multithread"] = True
    if request.fault is not None:
        environ[FAULT] = request.fault
    if last:
        response.force_close()
    parts = application(environ, response.start_response)
    try:
        for part in parts:
            response.write(part)
        response.close()
    finally:
        if hasattr(parts, "close"):
            parts.close()
    return not response.should_close()


def _last_resort(request: Request) -> bytes:
    error = ServiceError("service_unavailable")
    number = uuid.uuid4().hex
    body = orjson.dumps(error_body(error, number, str(request.method), str(request.path)))
    head = (
        f"HTTP/1.1 503 {HTTPStatus.SERVICE_UNAVAILABLE.phrase}",
        f"Content-Type: {JSON}",
        f"Content-Length: {len(body)}",
        f"X-Request-Id: {number}",
        f"Retry-After: {RETRY_AFTER}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode("latin-1") + (b"" if request.method == "HEAD" else body)
