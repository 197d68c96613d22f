"""Counts and distributions are what the library of Prometheus would make of them
(docs/monitoring/metrics.md#all-metrics)."""

from __future__ import annotations

from typing import Any

import prometheus_client
import pytest

from app.infrastructure import metric_kinds
from app.infrastructure.metric_kinds import Counter, counter, histogram

BUCKETS = (0.1, 1, 10.5)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> prometheus_client.CollectorRegistry:
    """A registry of this test's own."""
    collectors = prometheus_client.CollectorRegistry()
    monkeypatch.setattr(metric_kinds, "REGISTRY", collectors)
    monkeypatch.setattr(metric_kinds, "DEFINITIONS", {})
    return collectors


def samples(registry: prometheus_client.CollectorRegistry) -> list[tuple[str, dict[str, str], float]]:
    """What is read, without the times at which the library created its series."""
    samples_of_registry = [sample for family in registry.collect() for sample in family.samples]
    listed = [
        (sample.name, sample.labels, sample.value)
        for sample in samples_of_registry
        if not sample.name.endswith("_created")
    ]
    return sorted(listed, key=str)


def work(count: Any, distribution: Any) -> None:
    count.labels("GET", 200).inc()
    count.labels("GET", "200").inc(2)
    count.labels("GET", 404).inc()
    for value in (0, 0.1, 0.11, 1, 10.5, 11, 1e9):
        distribution.labels("x").observe(value)


def test_series_have_the_samples_of_the_library(registry: prometheus_client.CollectorRegistry) -> None:
    theirs = prometheus_client.CollectorRegistry()
    work(
        prometheus_client.Counter("asked", "Asked.", ["method", "status"], registry=theirs),
        prometheus_client.Histogram("took", "Took.", ["of"], buckets=BUCKETS, registry=theirs),
    )
    work(counter("asked", "Asked.", "method", "status"), histogram("took", "Took.", "of", buckets=BUCKETS))
    assert samples(registry) == samples(theirs)


def test_known_series_and_those_without_labels_are_shown_from_0_on(
    registry: prometheus_client.CollectorRegistry,
) -> None:
    plain = counter("plain", "Plain.")
    counter("known", "Known.", "of", initial_labels=[("a",)])
    assert samples(registry) == [("known_total", {"of": "a"}, 0), ("plain_total", {}, 0)]
    plain.inc()
    assert ("plain_total", {}, 1) in samples(registry)


def test_a_series_has_a_value_of_each_label(registry: prometheus_client.CollectorRegistry) -> None:
    count: Counter = counter("asked", "Asked.", "method", "status")
    with pytest.raises(ValueError, match="asked has the labels"):
        count.labels("GET")
