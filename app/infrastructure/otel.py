"""Traces by OpenTelemetry: spans are sent to `TRACES_URL` by a thread of their own, and dropped while that is away."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.infrastructure.tracing import Value
from app.settings import Settings

SERVICE_NAME = "transactional-messaging"
SEND_SECONDS = 5
"""Seconds for one attempt to hand spans over."""
STOP_SECONDS = 1.0
"""How long the end of a process waits for the spans that it still has."""
MAX_WAITING_SPANS = 2048
"""Spans that wait to be sent; further ones are dropped."""
CALL_SPANS = ("transmit", "webhook")
"""Spans of calls to other servers."""
REQUEST_ID = re.compile(r"[0-9a-f]{32}")
SERVER_ERROR = 500

_root: ContextVar[tuple[int, int] | None] = ContextVar("root_span", default=None)
"""Trace and span id of the request whose span is being made."""


def root_of(request_id: str) -> tuple[int, int]:
    """The ids of trace and span of a request. Both follow from its id, so that a worker that knows only this, from the
    row of the send, adds to the trace without anything more being stored."""
    trace_id = int(request_id, 16)
    return trace_id, trace_id & 0xFFFFFFFFFFFFFFFF


class RequestIds(IdGenerator):
    """Gives the span of a request the ids that follow from the request's, and others random ones."""

    def generate_trace_id(self) -> int:
        """128 bits."""
        root = _root.get()
        return root[0] if root else secrets.randbits(128) or 1

    def generate_span_id(self) -> int:
        """64 bits."""
        root = _root.get()
        return root[1] if root else secrets.randbits(64) or 1

    def is_trace_id_random(self) -> bool:
        """The id of a request is a random UUID."""
        return True


class OpenTelemetry:
    """The tracer of a process."""

    def __init__(self, settings: Settings, role: str) -> None:
        exporter = OTLPSpanExporter(endpoint=settings.traces_url, timeout=SEND_SECONDS)
        provider = TracerProvider(
            sampler=TraceIdRatioBased(settings.traces_ratio),
            resource=Resource.create({"service.name": SERVICE_NAME, "service.namespace": "tms", "tms.process": role}),
            id_generator=RequestIds(),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=MAX_WAITING_SPANS))
        self._provider = provider
        self._tracer = provider.get_tracer(SERVICE_NAME)

    def close(self) -> None:
        """Sends the spans that are left, unless that takes too long: nothing may delay the end of a process."""
        ending = threading.Thread(target=self._provider.shutdown, daemon=True, name="traces")
        ending.start()
        ending.join(STOP_SECONDS)

    @contextmanager
    def span(self, name: str, request_id: str | None, attributes: Mapping[str, Value]) -> Iterator[_Span]:
        """A span around a block, which notes an exception that leaves it."""
        parent = _context_of(request_id) if request_id is not None else None
        kind = SpanKind.CLIENT if name in CALL_SPANS else SpanKind.INTERNAL
        with self._tracer.start_as_current_span(name, parent, kind, _named(attributes)) as made:
            yield _Span(made)

    def begin_request(self, request_id: str, name: str, traceparent: str | None) -> _Request:
        """The span of a request."""
        token = _root.set(root_of(request_id))
        try:
            made = self._tracer.start_span(name, context.Context(), SpanKind.SERVER, links=_links(traceparent))
        finally:
            _root.reset(token)
        return _Request(made)


class _Span:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def add(self, **attributes: Value) -> None:
        self._span.set_attributes(_named(attributes))


class _Request:
    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._token = context.attach(trace.set_span_in_context(span))

    def end(self, **attributes: Value) -> None:
        self._span.set_attributes(_named(attributes))
        status = attributes.get("http__response__status_code")
        if isinstance(status, int) and status >= SERVER_ERROR:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()
        context.detach(self._token)


def _named(attributes: Mapping[str, Value]) -> dict[str, str | int | float | bool]:
    return {name.replace("__", "."): value for name, value in attributes.items() if value is not None}


def _context_of(request_id: str) -> context.Context:
    """The context of a request that another process has answered; none for work that no request has caused."""
    if not REQUEST_ID.fullmatch(request_id):
        return context.Context()
    trace_id, span_id = root_of(request_id)
    flags = TraceFlags(TraceFlags.SAMPLED)  # the ratio decides by the trace id alone, so alike in every process
    return trace.set_span_in_context(NonRecordingSpan(SpanContext(trace_id, span_id, True, flags)), context.Context())


def _links(traceparent: str | None) -> list[Link]:
    if traceparent is None:
        return []
    carried = TraceContextTextMapPropagator().extract({"traceparent": traceparent}, context.Context())
    linked = trace.get_current_span(carried).get_span_context()
    return [Link(linked)] if linked.is_valid else []
