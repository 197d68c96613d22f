"""Traces of requests and of the work of the workers (docs/monitoring/traces.md).

Off unless `TRACES_URL` is set; then a span costs one comparison. What the rest of the code calls stands here, and the
OpenTelemetry libraries, an extra of the package, are imported by `app.infrastructure.otel` alone.
"""

from __future__ import annotations

import atexit
import importlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol, Self

from app.settings import Settings

Value = str | int | float | bool | None
"""An attribute; None leaves it out. Never an address, a text of a message or a token."""


class Span(Protocol):
    """A span that is open."""

    def add(self, **attributes: Value) -> None:
        """Adds attributes; the words of a name are joined by dots: `http__route` is `http.route`."""


class OpenRequest(Protocol):
    """The span of a request, which is ended elsewhere than it was begun."""

    def end(self, **attributes: Value) -> None:
        """Ends the span with these attributes."""


class Tracing(Protocol):
    """What `app.infrastructure.otel` offers."""

    def span(self, name: str, request_id: str | None, attributes: Mapping[str, Value]) -> AbstractContextManager[Span]:
        """See the function `span`."""

    def begin_request(self, request_id: str, name: str, traceparent: str | None) -> OpenRequest:
        """See the function `begin_request`."""

    def close(self) -> None:
        """See the function `stop`."""


class _NoSpan:
    """The span of a process without traces."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def add(self, **attributes: Value) -> None:
        """Nothing."""

    def end(self, **attributes: Value) -> None:
        """Nothing."""


NO_SPAN = _NoSpan()
_tracing: Tracing | None = None


def start(settings: Settings, role: str) -> None:
    """Starts tracing if it is wanted. Call it once, in a long-lived process, after any fork; `role` names its kind."""
    global _tracing  # noqa: PLW0603 - one per process
    if settings.traces_url and _tracing is None:
        _tracing = importlib.import_module("app.infrastructure.otel").OpenTelemetry(settings, role)
        atexit.register(stop)


def stop() -> None:
    """Hands over the spans that are left, and ends tracing."""
    global _tracing
    if _tracing is not None:
        ending, _tracing = _tracing, None
        atexit.unregister(stop)
        ending.close()


def span(name: str, *, request_id: str | None = None, **attributes: Value) -> AbstractContextManager[Span]:
    """A span around a block. With the id of a request it is one of that request's trace, in whichever process;
    otherwise it belongs to the span around it."""
    return NO_SPAN if _tracing is None else _tracing.span(name, request_id, attributes)


def begin_request(request_id: str, name: str, traceparent: str | None) -> OpenRequest:
    """The span of a request, whose trace has the id of the request. `traceparent` is the client's header, to which the
    span gets a link: a client's trace may consist of many requests, and need not be ours to extend."""
    return NO_SPAN if _tracing is None else _tracing.begin_request(request_id, name, traceparent)
