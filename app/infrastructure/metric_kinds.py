"""The kinds of metrics, each with its entry in the list of all of them (docs/monitoring/metrics.md).

They are declared in app/infrastructure/metrics.py, and those that are read from the database in
app/maintenance/figures.py.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any, Generic, NamedTuple, TypeVar

# With one of these in the environment the library would count in memory-mapped files, and on a full disk the kernel
# kills a process that writes to one (SIGBUS).
for _name in ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"):
    os.environ.pop(_name, None)

from prometheus_client import (  # noqa: E402
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Gauge,
    generate_latest,
)
from prometheus_client.metrics_core import (  # noqa: E402
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector  # noqa: E402
from prometheus_client.utils import floatToGoString  # noqa: E402

Labels = tuple[str, ...]
Measurement = Mapping[Labels, float]
"""Values by their labels."""
CONTENT_TYPE = CONTENT_TYPE_LATEST
Family = Metric
REGISTRY = CollectorRegistry()
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


def counter(name: str, documentation: str, *labels: str, initial_labels: Iterable[Labels] = ()) -> Counter:
    """A count of this process, scraped as `name_total`. `initial_labels` are values of its
    labels: their series are shown from 0 on, since Prometheus sees no increase in the sample with which a series
    begins."""
    define(f"{name}_total", "counter", documentation, labels)
    made = Counter(Count, name, documentation, labels)
    for values in initial_labels:
        made.labels(*values)
    return made


def histogram(name: str, documentation: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
    """The distribution of what this process observes."""
    define(name, "histogram", documentation, labels)
    return Histogram(lambda: Distribution(buckets), name, documentation, labels)


def timestamp(name: str, documentation: str, *labels: str) -> Gauge:
    """When something last happened in any process: its name ends in `_timestamp_seconds`."""
    define(name, "gauge", documentation, labels)
    return Gauge(name, documentation, labels, registry=REGISTRY)


def gauge(name: str, documentation: str, *labels: str) -> MeasuredGauge:
    """A value of each running process, added up."""
    define(name, "gauge", documentation, labels)
    return MeasuredGauge(name, documentation, labels)


class Count:
    """A number that only grows. Threads share it."""

    __slots__ = ("_lock", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self._lock = threading.Lock()

    def inc(self, number: float = 1) -> None:
        """Counts so many more."""
        with self._lock:
            self.value += number


class Distribution:
    """How many observed values are in each bucket, and their sum. Threads share it."""

    __slots__ = ("_lock", "bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        """The largest value of each bucket; the last bucket has all that are larger."""
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self._lock = threading.Lock()

    def observe(self, value: float) -> None:
        """Counts a value."""
        bucket = bisect_left(self.bounds, value)
        with self._lock:
            self.counts[bucket] += 1
            self.sum += value

    def read(self) -> tuple[list[int], float]:
        """The numbers in the buckets, and the sum."""
        with self._lock:
            return self.counts.copy(), self.sum


Series = TypeVar("Series", Count, Distribution)


class SeriesCollector(Collector, Generic[Series]):
    """A metric with a series for each combination of its labels. Who serves a request or a message adds to a series;
    what Prometheus makes of it is made when it is read."""

    def __init__(self, make: Callable[[], Series], name: str, documentation: str, labels: tuple[str, ...]) -> None:
        self._make: Callable[[], Series] = make
        self._family = name, documentation, labels
        self._series: dict[Labels, Series] = {}
        self._by_values: dict[tuple[object, ...], Series] = {}
        """The series by the values of their labels as callers give them."""
        self._lock = threading.Lock()
        if not labels:
            self.labels()
        REGISTRY.register(self)

    def labels(self, *values: object) -> Series:
        """The series with these values of its labels."""
        series = self._by_values.get(values)
        return self._add(values) if series is None else series

    def _add(self, values: tuple[object, ...]) -> Series:
        if len(values) != len(self._family[2]):
            raise ValueError(f"{self._family[0]} has the labels {self._family[2]}, not {values}")
        texts = tuple(map(str, values))
        with self._lock:
            if texts not in self._series:
                self._series[texts] = self._make()
            self._by_values[values] = self._series[texts]
            return self._series[texts]

    def series(self) -> list[tuple[Labels, Series]]:
        """All series, by the texts of their labels."""
        with self._lock:
            return list(self._series.items())

    def collect(self) -> Iterable[Metric]:
        """The library's hook."""
        yield self.family(self.series())

    def describe(self) -> Iterable[Metric]:
        """The library's hook: the name alone."""
        return [self.family([])]

    def family(self, series: Iterable[tuple[Labels, Series]]) -> Metric:
        """The series in the library's form."""
        raise NotImplementedError


class Counter(SeriesCollector[Count]):
    """Counts of this process."""

    def inc(self, number: float = 1) -> None:
        """Counts so many more, where there are no labels."""
        self.labels().inc(number)

    def family(self, series: Iterable[tuple[Labels, Count]]) -> Metric:
        """See `SeriesCollector`."""
        name, documentation, labels = self._family
        made = CounterMetricFamily(name, documentation, labels=labels)
        for values, count in series:
            made.add_metric(values, count.value)
        return made


class Histogram(SeriesCollector[Distribution]):
    """Distributions of what this process observes."""

    def observe(self, value: float) -> None:
        """Counts a value, where there are no labels."""
        self.labels().observe(value)

    def family(self, series: Iterable[tuple[Labels, Distribution]]) -> Metric:
        """See `SeriesCollector`. A bucket of Prometheus has those of the smaller ones, too."""
        name, documentation, labels = self._family
        made = HistogramMetricFamily(name, documentation, labels=labels)
        for values, distribution in series:
            counts, total = distribution.read()
            bounds = map(floatToGoString, (*distribution.bounds, float("inf")))
            made.add_metric(values, list(zip(bounds, accumulate(counts), strict=True)), total)
        return made


class MeasuredGauge(Collector):
    """A gauge that is measured when it is read: the sum of what its sources say."""

    def __init__(self, name: str, documentation: str, labels: tuple[str, ...]) -> None:
        self._family = name, documentation, labels
        self._sources: list[weakref.ref[Any]] = []
        self._lock = threading.Lock()
        REGISTRY.register(self)

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
    for label_values, value in values.items():
        made.add_metric(label_values, value)
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
