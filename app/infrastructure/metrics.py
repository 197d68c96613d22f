"""Prometheus metrics of all processes of this machine (docs/monitoring/metrics.md).

Each process counts in its own memory and regularly shares its counts with the others
(app/infrastructure/shared_counts.py); a scrape adds them up.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from app.db import outage
from app.db.database import Database
from app.infrastructure.metric_kinds import (
    DEFINITIONS,
    REGISTRY,
    Family,
    Measurement,
    counter,
    exposed,
    gauge,
    histogram,
    timestamp,
)
from app.infrastructure.recent_counts import RecentCounts
from app.infrastructure.shared_counts import LATEST_SUFFIX, Counts, Key, SharedCounts, add
from app.settings import Settings

TYPES = ("email", "sms")
CLASSES = ("live", "test")
RESULTS = ("sent", "deferred", "bounced", "failed", "uncertain")
REASONS = (
    *("address", "mailbox", "mail_system", "network", "protocol", "content", "policy", "other"),
    *("domain_backoff", "rate_limit", "render_quota", "transport", "pause", "relay"),
)
"""Why messages are deferred: after an attempt, or without one."""
QUEUES = ("sends", "webhooks", "maintenance", "automations")

REQUESTS_REPEATED = counter(
    "tms_http_requests_repeated", "Attempts to answer a request that the database failed, and that were repeated."
)
REQUESTS = counter("tms_http_requests", "API requests answered.", "method", "route", "status")
REQUEST_SECONDS = histogram(
    "tms_http_request_seconds",
    "Time to answer an API request.",
    "route",
    "status_class",
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
ACCEPTED = counter(
    "tms_accepted_recipients", "Recipients accepted.", "account_class", "type", initial_labels=product(CLASSES, TYPES)
)
HANDOVER = histogram(
    "tms_handover_seconds",
    "Time from the acceptance of a message until the relay or gateway has accepted it.",
    "account_class",
    "type",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21_600, 86_400),
)
OUTCOMES = counter(
    "tms_recipient_outcomes",
    "Results of delivery attempts by their outcome.",
    *("account_class", "type", "outcome"),
    initial_labels=product(CLASSES, TYPES, RESULTS),
)
DEFERRALS = counter(
    "tms_deferrals", "Deferred messages, by reason.", "type", "reason", initial_labels=product(TYPES, REASONS)
)
TRANSPORT_OUTCOMES = counter(
    "tms_transport_outcomes",
    "Results of delivery attempts by the name of the transport, `default` for the one in the settings.",
    *("type", "transport", "outcome"),
    initial_labels=product(TYPES, ("default",), RESULTS),
)
TRANSPORT_REPLIES = counter(
    "tms_transport_replies",
    "Answers of relays and gateways to messages.",
    *("type", "transport", "reply"),
    initial_labels=product(TYPES, ("default",), ("accepted", "temporary", "permanent", "none")),
)
TRANSPORT_CONNECTIONS = counter(
    "tms_transport_connections",
    "Connections opened to relays and gateways.",
    *("type", "transport", "result"),
    initial_labels=product(TYPES, ("default",), ("opened", "failed")),
)
TRANSPORT_SLOTS = gauge("tms_transport_slots", "Connections that messages use, and may use.", "transport", "state")
TRANSPORT_SET_ASIDE = gauge("tms_transport_set_aside", "Senders that have set a transport aside.", "transport")
TRANSPORT_FAILOVERS = counter(
    "tms_transport_failovers", "Messages that went to the next transport of their route.", "transport"
)
TRANSPORT_BACKOFFS = counter("tms_transport_backoffs", "Back-offs of transports of routes.", "transport")
AUTOMATION_STEPS = counter("tms_automation_steps", "Steps of automations that runs have passed.", "result")
AUTOMATION_DELAY = histogram(
    "tms_automation_delay_seconds",
    "How long after it was due a run of an automation was advanced.",
    buckets=(1, 5, 15, 60, 300, 1800, 3600, 21_600, 86_400),
)
AUTOMATION_ENDS = counter("tms_automation_runs_ended", "Runs of automations that ended.", "reason")
WEBHOOK_TRIES = counter(
    "tms_webhook_tries",
    "Requests to webhooks by their outcome.",
    "outcome",
    initial_labels=product(("delivered", "failed", "gone")),
)
WEBHOOK_OUTAGES = counter("tms_webhook_outages", "Webhooks that have failed for a day.")
WAKE_UPS = counter(
    "tms_wake_ups",
    "Wake-ups of workers.",
    "queue",
    "result",
    initial_labels=product(QUEUES, ("added", "waiting", "failed")),
)
SWEEPS = counter(
    "tms_sweeps",
    "The scheduler's looks for work, and the hourly cleaning.",
    *("sweep", "result"),
    initial_labels=product(("queues", "cleaning"), ("done", "failed")),
)
SWEEP_SECONDS = histogram(
    "tms_sweep_seconds", "How long a sweep took.", "sweep", buckets=(0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 600)
)
SWEEP_TIME = timestamp("tms_sweep_timestamp_seconds", "When the last sweep was done.", "sweep")
BACKUP_TIME = "tms_backup_timestamp_seconds"
timestamp(BACKUP_TIME, "When the last backup was complete, and when one last failed.", "result")
LEASES_RECOVERED = counter(
    "tms_leases_recovered",
    "Leases of dead processes that were taken over.",
    "kind",
    initial_labels=product(("recipients", "webhooks")),
)
DATABASE_CONNECTIONS = gauge("tms_database_connections", "Connections to the database.", "state")
DATABASE_ERRORS = counter(
    "tms_database_errors",
    "Work that failed because of the database.",
    "reason",
    initial_labels=product(("unavailable", "pool", "other")),
)

outage.observers.append(lambda reason: DATABASE_ERRORS.labels(reason).inc())

_shared: SharedCounts | None = None
_samples: RecentCounts | None = None
_pools: list[_Pool] = []


def account_class(*, is_test: bool) -> str:
    """The label of what belongs to an account."""
    return "test" if is_test else "live"


def share(settings: Settings, database: Database | None = None) -> None:
    """Starts sharing counts with the other processes of this machine, until this one ends. Call it once, in a
    long-lived process, after any fork."""
    global _shared, _samples  # noqa: PLW0603 - like the counters themselves, one per process
    if database is not None:
        _pools.append(_Pool(database))
    _shared = SharedCounts(settings.data_dir / "metrics", own_counts, own_gauges, _write_sample)
    _samples = RecentCounts(settings.data_dir / "metrics")
    _shared.start()


def _write_sample() -> None:
    if _shared is not None and _samples is not None and _samples.is_due():
        _samples.write([*_shared.others(), own_counts()])


def note_time(settings: Settings, name: str, *labels: str) -> None:
    """Shares that something has happened now, from a command, which ends before anybody could ask it. Raises
    nothing."""
    key: Key = (name, tuple(zip(DEFINITIONS[name].labels, labels, strict=True)))
    SharedCounts(settings.data_dir / "metrics", lambda: {key: time.time()}).write_once()


def counts_of_host(settings: Settings) -> list[Counts]:
    """The counts of all processes of this host."""
    shared = SharedCounts(settings.data_dir / "metrics", dict) if _shared is None else _shared
    return [*shared.others(), own_counts()]


def noted_time(all_counts: Iterable[Counts], name: str, *labels: str) -> float | None:
    """When that last happened on this host, by its counts, in seconds since 1970; None if never."""
    key: Key = (name, tuple(zip(DEFINITIONS[name].labels, labels, strict=True)))
    times = (counts.get(key) for counts in all_counts)
    return max((moment for moment in times if moment is not None), default=None)


class _Pool:
    """The connection pool of this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        DATABASE_CONNECTIONS.add_source(self.measure)

    def measure(self) -> Measurement:
        in_use, idle, limit = self._database.pool_state
        return {("in_use",): in_use, ("idle",): idle, ("limit",): limit}


def own_counts() -> Counts:
    """All counts of this process above zero, and when something last happened."""
    families = (family for family in REGISTRY.collect() if not _is_gauge(family))
    samples = (sample for family in families for sample in family.samples)
    return {_key(sample): sample.value for sample in samples if sample.value and _is_count(sample.name)}


def own_gauges() -> Counts:
    """What this process measures."""
    families = (family for family in REGISTRY.collect() if _is_gauge(family))
    return {_key(sample): sample.value for family in families for sample in family.samples}


def families() -> Iterator[Family]:
    """The metrics of all processes."""
    counts, gauges = (_shared.others(), _shared.others_gauges()) if _shared else ((), ())
    counts_by_name = _by_name([*counts, *gauges])
    for family in REGISTRY.collect():
        summed = {_key(sample): sample.value for sample in family.samples if _is_count(sample.name)}
        for name in (family.name, *(f"{family.name}{suffix}" for suffix in ("_total", "_bucket", "_sum", "_count"))):
            add(summed, counts_by_name.get(name, {}))
        metric = Family(family.name, family.documentation, family.type)
        for (name, labels), value in summed.items():
            metric.add_sample(name, dict(labels), value)
        yield metric


def exposition(further: Iterable[Family] = ()) -> bytes:
    """The metrics of all processes, and further ones, in Prometheus' text format."""
    return exposed([*families(), *further])


def _by_name(all_counts: Iterable[Counts]) -> dict[str, Counts]:
    """The sums of the counts, without those with labels that their metric does not have in this version."""
    counts_by_name: dict[str, Counts] = defaultdict(dict)
    for counts in all_counts:
        for key, value in counts.items():
            if _fits(key):
                add(counts_by_name[key[0]], {key: value})
    return counts_by_name


def _fits(key: Key) -> bool:
    name = key[0]
    stem = name if name in DEFINITIONS else name.rpartition("_")[0]
    labels = {label for label, _ in key[1]} - {"le"}
    return stem in DEFINITIONS and labels == {*DEFINITIONS[stem].labels}


def _is_gauge(family: Family) -> bool:
    return family.type == "gauge" and not family.name.endswith(LATEST_SUFFIX)


def _key(sample: Any) -> Key:
    return sample.name, tuple(sample.labels.items())


def _is_count(name: str) -> bool:
    """False for the creation time of a counter, which cannot be added up."""
    return not name.endswith("_created")
