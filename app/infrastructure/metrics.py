"""Prometheus metrics of all processes of this machine.

Each process counts in its own memory and regularly shares its counts with the others
(app/infrastructure/shared_counts.py); a scrape adds them up.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

# With one of these in the environment the library would count in memory-mapped files, and on a full disk the kernel
# kills a process that writes to one (SIGBUS).
for _name in ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"):
    os.environ.pop(_name, None)

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest  # noqa: E402
from prometheus_client.metrics_core import Metric  # noqa: E402
from prometheus_client.registry import Collector  # noqa: E402

from app.infrastructure.shared_counts import Counts, Key, SharedCounts  # noqa: E402
from app.settings import Settings  # noqa: E402

CONTENT_TYPE = CONTENT_TYPE_LATEST

OWN = CollectorRegistry()
"""The counts of this process."""

REQUESTS = Counter("tms_http_requests", "API requests answered.", ["method", "status"], registry=OWN)
REQUEST_SECONDS = Histogram(
    "tms_http_request_seconds",
    "Time to answer an API request.",
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
    registry=OWN,
)
OUTCOMES = Counter(
    "tms_recipient_outcomes", "Results of delivery attempts by their outcome.", ["type", "outcome"], registry=OWN
)
TRANSPORT_OUTCOMES = Counter(
    "tms_transport_outcomes",
    "Results of delivery attempts by the name of the transport, `default` for the one in the settings.",
    ["type", "transport", "outcome"],
    registry=OWN,
)
TRANSPORT_FAILOVERS = Counter(
    "tms_transport_failovers", "Messages that went to the next transport of their route.", ["transport"], registry=OWN
)
TRANSPORT_BACKOFFS = Counter(
    "tms_transport_backoffs", "Back-offs of transports of routes.", ["transport"], registry=OWN
)
AUTOMATION_STEPS = Counter(
    "tms_automation_steps", "Steps of automations that runs have passed.", ["result"], registry=OWN
)
AUTOMATION_DELAY = Histogram(
    "tms_automation_delay_seconds",
    "How long after it was due a run of an automation was advanced.",
    buckets=(1, 5, 15, 60, 300, 1800, 3600, 21_600, 86_400),
    registry=OWN,
)
AUTOMATION_ENDS = Counter("tms_automation_runs_ended", "Runs of automations that ended.", ["reason"], registry=OWN)
WEBHOOK_TRIES = Counter("tms_webhook_tries", "Requests to webhooks by their outcome.", ["outcome"], registry=OWN)
WEBHOOK_OUTAGES = Counter("tms_webhook_outages", "Webhooks that have failed for a day.", registry=OWN)

_shared: SharedCounts | None = None


def share(settings: Settings) -> None:
    """Starts sharing counts with the other processes of this machine, until this one ends. Call it once, in a
    long-lived process, after any fork."""
    global _shared  # noqa: PLW0603 - like the counters themselves, one per process
    _shared = SharedCounts(settings.data_dir / "metrics", own_counts)
    _shared.start()


def own_counts() -> Counts:
    """All counts of this process above zero."""
    samples = (sample for family in OWN.collect() for sample in family.samples)
    return {_key(sample): sample.value for sample in samples if sample.value and _is_count(sample.name)}


def exposition() -> bytes:
    """The metrics of all processes in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Sum(_shared.others() if _shared else []))
    return generate_latest(registry)


class _Sum(Collector):
    """The families of this process with the counts of all processes."""

    def __init__(self, others: Iterable[Counts]) -> None:
        self._others = list(others)

    def collect(self) -> Iterator[Metric]:
        for family in OWN.collect():
            names = {f"{family.name}{suffix}" for suffix in ("_total", "_bucket", "_sum", "_count")}
            summed = {_key(sample): sample.value for sample in family.samples if _is_count(sample.name)}
            for counts in self._others:
                for key, value in counts.items():
                    if key[0] in names:
                        summed[key] = summed.get(key, 0.0) + value
            metric = Metric(family.name, family.documentation, family.type)
            for (name, labels), value in summed.items():
                metric.add_sample(name, dict(labels), value)
            yield metric


def _key(sample: object) -> Key:
    return sample.name, tuple(sample.labels.items())  # type: ignore[attr-defined]


def _is_count(name: str) -> bool:
    """False for the creation time of a counter, which cannot be added up."""
    return not name.endswith("_created")
