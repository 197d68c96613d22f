"""The kinds of metrics, each with its entry in the list of all of them (docs/monitoring/metrics.md).

They are declared in app/infrastructure/metrics.py, and those that are read from the database in
app/maintenance/figures.py.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

# With one of these in the environment the library would count in memory-mapped files, and on a full disk the kernel
# kills a process that writes to one (SIGBUS).
for _name in ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"):
    os.environ.pop(_name, None)

from prometheus_client import (  # noqa: E402
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric  # noqa: E402
from prometheus_client.registry import Collector  # noqa: E402

Labels = tuple[str, ...]
Measurement = Mapping[Labels, float]
"""Values by their labels."""
CONTENT_TYPE = CONTENT_TYPE_LATEST
Family = Metric
OWN = CollectorRegistry()
"""What this process counts and measures."""


class Definition(NamedTuple):
    """A metric as the page about them shows it."""

    name: str
    type: str
    labels: tuple[str, ...]
    documentation: str


DEFINITIONS: dict[str, Definition] = {}
"""All metrics by the name under which they are scraped."""


def define(name: str, type_: str, documentation: str, labels: tuple[str, ...]) -> Definition:
    """Enters a metric into the list."""
    DEFINITIONS[name] = Definition(name, type_, labels, documentation)
    return DEFINITIONS[name]


def counter(name: str, documentation: str, *labels: str, known: Iterable[Labels] = ()) -> Counter:
    """A count of this process, scraped as `name_total`. `known` are the values of its labels that are known beforehand:
    they are shown from 0 on, since Prometheus sees no increase in the sample with which a series begins."""
    define(f"{name}_total", "counter", documentation, labels)
    made = Counter(name, documentation, labels, registry=OWN)
    for values in known:
        made.labels(*values)
    return made


def histogram(name: str, documentation: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
    """The distribution of what this process observes."""
    define(name, "histogram", documentation, labels)
    return Histogram(name, documentation, labels, buckets=buckets, registry=OWN)


def timestamp(name: str, documentation: str, *labels: str) -> Gauge:
    """When something last happened in any process: its name ends in `_timestamp_seconds`."""
    define(name, "gauge", documentation, labels)
    return Gauge(name, documentation, labels, registry=OWN)


def gauge(name: str, documentation: str, *labels: str) -> MeasuredGauge:
    """A value of each running process, added up."""
    define(name, "gauge", documentation, labels)
    return MeasuredGauge(name, documentation, labels, registry=OWN)


class MeasuredGauge(Collector):
    """A gauge that is measured when it is read: the sum of what its sources say."""

    def __init__(
        self, name: str, documentation: str, labels: tuple[str, ...], registry: CollectorRegistry | None = None
    ) -> None:
        self._family = name, documentation, labels
        self._sources: list[weakref.ref[Any]] = []
        self._lock = threading.Lock()
        if registry is not None:
            registry.register(self)

    def add_source(self, measure: Callable[[], Measurement]) -> None:
        """Adds a bound method, which counts for as long as its object lives."""
        with self._lock:
            self._sources = [source for source in self._sources if source() is not None]
            self._sources.append(weakref.WeakMethod(measure))

    def collect(self) -> Iterable[Metric]:
        """The library's hook. A source that fails is left out: a metric must not fail anything."""
        summed: dict[tuple[str, ...], float] = {}
        with self._lock:
            sources = [source() for source in self._sources]
        for measure in sources:
            with contextlib.suppress(Exception):
                for labels, value in measure().items() if measure else ():
                    summed[labels] = summed.get(labels, 0.0) + value
        yield gauge_family(*self._family, summed)

    def describe(self) -> Iterable[Metric]:
        """The library's hook: the name, without measuring anything."""
        return [gauge_family(*self._family, {})]


def gauge_family(name: str, documentation: str, labels: tuple[str, ...], values: Measurement) -> Metric:
    """A gauge with these values."""
    made = GaugeMetricFamily(name, documentation, labels=labels)
    for own, value in values.items():
        made.add_metric(own, value)
    return made


def exposed(families: Iterable[Metric]) -> bytes:
    """Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Families(families))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        """The library's hook."""
        return self._families
