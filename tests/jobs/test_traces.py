"""Traces of a message from the request to the relay's answer (docs/monitoring/traces.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from app.infrastructure import tracing
from app.infrastructure.tracing import NO_SPAN
from app.sends.delivery.drain import drain
from app.settings import Settings, SettingsError, from_environment
from tests.support.client import SENDS, Client
from tests.support.sends import SendsApi
from tests.support.servers import PATIENCE, free_port
from tests.support.tenants import Tenant
from tests.support.webhook_receiver import Receiver

CLIENTS_TRACE, CLIENTS_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def traced(settings: Settings, collector: Receiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for limit in ("STOP_SECONDS", "SEND_SECONDS"):
        monkeypatch.setattr(f"app.infrastructure.otel.{limit}", PATIENCE)
    tracing.start(replace(settings, traces_url=collector.url), "test")
    yield
    tracing.stop()


def spans(collector: Receiver) -> list[Span]:
    """All spans that have been handed over, in the order in which they began."""
    tracing.stop()
    sent = [ExportTraceServiceRequest.FromString(hit.body) for hit in collector.hits]
    all_spans = [
        span
        for export in sent
        for resource in export.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    return sorted(all_spans, key=lambda span: span.start_time_unix_nano)


def attributes(span: Span) -> dict[str, Any]:
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value") or "")
        for attribute in span.attributes
    }


@pytest.mark.usefixtures("traced")
def test_a_message_is_one_trace_from_its_request_to_the_answer_of_the_relay(
    api: Client, tenant: Tenant, collector: Receiver
) -> None:
    sends = SendsApi(tenant)
    body = sends.email()
    answer = api.post(SENDS, body)
    assert answer.status_code == 202, answer.text
    drain(tenant.services)
    request_id = answer.headers["X-Request-Id"]
    all_spans = spans(collector)
    message_spans = [span for span in all_spans if span.trace_id.hex() == request_id]
    assert [span.name for span in message_spans] == ["POST /v1/transactional-sends", "accept", "compose", "transmit"]
    root, *children = message_spans
    assert root.parent_span_id == b""
    assert {span.parent_span_id for span in children} == {root.span_id}
    assert attributes(root) == {"http.response.status_code": 202, "tms.account_id": tenant.id}
    uuid = answer.get_json()["_embedded"]["recipients"][0]["uuid"]
    assert attributes(message_spans[3]) == {
        **{"tms.uuid": uuid, "tms.type": "email", "tms.transport": "default", "tms.attempt": 1},
        **{"tms.outcome": "accepted", "tms.status": "2.0.0"},
    }
    assert {"claim", "load", "settle"} <= {span.name for span in all_spans}
    assert not any(body["recipients"][0]["email"].encode() in hit.body for hit in collector.hits)


@pytest.mark.usefixtures("traced")
def test_the_span_of_a_request_has_a_link_to_the_trace_of_its_client(api: Client, collector: Receiver) -> None:
    for header in (f"00-{CLIENTS_TRACE}-{CLIENTS_SPAN}-01", "nonsense"):
        assert api.get("/v1/lists", headers={"Traceparent": header}).status_code == 200
    linked, unlinked = spans(collector)
    (link,) = linked.links
    assert (link.trace_id.hex(), link.span_id.hex()) == (CLIENTS_TRACE, CLIENTS_SPAN)
    assert linked.trace_id.hex() != CLIENTS_TRACE
    assert list(unlinked.links) == []


def test_a_ratio_decides_alike_for_all_spans_of_a_request(
    api: Client, tenant: Tenant, settings: Settings, collector: Receiver
) -> None:
    tracing.start(replace(settings, traces_url=collector.url, traces_ratio=0.5), "test")
    sends = SendsApi(tenant)
    ids = [api.post(SENDS, sends.email()).headers["X-Request-Id"] for _ in range(12)]
    drain(tenant.services)
    names = {trace_id: {span.name for span in spans(collector) if span.trace_id.hex() == trace_id} for trace_id in ids}
    assert {len(span_names) for span_names in names.values()} <= {0, 4}


def test_a_collector_that_is_away_costs_nothing(api: Client, settings: Settings) -> None:
    tracing.start(replace(settings, traces_url=f"http://127.0.0.1:{free_port()}/v1/traces"), "test")
    assert api.get("/v1/lists").status_code == 200
    tracing.stop()


def test_without_a_collector_there_are_no_spans() -> None:
    assert tracing.span("accept") is NO_SPAN
    assert tracing.begin_request("0" * 32, "GET /v1/", None) is NO_SPAN


@pytest.mark.parametrize(
    ("variable", "value", "error"),
    [
        ("TRACES_URL", "collector:4318", "must be the http or https URL of a collector"),
        ("TRACES_RATIO", "2", "must be a number from 0 to 1"),
    ],
)
def test_a_wrong_setting_is_refused(tmp_path: Any, variable: str, value: str, error: str) -> None:
    with pytest.raises(SettingsError, match=error):
        from_environment({"DATA_DIR": str(tmp_path), variable: value})
