"""Prometheus metrics of all processes of this machine.

With PROMETHEUS_MULTIPROC_DIR in the environment (see docs/operations.md) each process counts in files of
that folder and a scrape adds them up; without it a process shows its own counts.
"""

from __future__ import annotations

import os
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import REGISTRY

CONTENT_TYPE = CONTENT_TYPE_LATEST

if _folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
    # The first metric opens a file in it.
    Path(_folder).mkdir(parents=True, exist_ok=True)

REQUESTS = Counter("tms_http_requests", "API requests answered.", ["method", "status"])
REQUEST_SECONDS = Histogram(
    "tms_http_request_seconds",
    "Time to answer an API request.",
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
OUTCOMES = Counter("tms_recipient_outcomes", "What became of tries to send to a recipient.", ["type", "outcome"])
WEBHOOK_TRIES = Counter("tms_webhook_tries", "Requests to webhooks by their outcome.", ["outcome"])


def exposition() -> bytes:
    """The metrics in Prometheus' text format."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
