"""How much the counts of this host have grown lately, for what an alert says of the last minutes
(docs/health.md#status).

Whichever process comes first writes a sample of them once a minute into one file, with the labels that the alerts need.
A command that runs for a second can so tell what Prometheus would.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from app.infrastructure.liveness import lock_if_free
from app.infrastructure.shared_counts import Counts, add, counts_of, listed_counts, read_content, replace_content

SAMPLES_FILE = "recent.json"
SAMPLE_SECONDS = 60.0
"""Seconds between two samples."""
MAX_GAP = 2 * SAMPLE_SECONDS
"""Seconds by which a sample may be older than the window that begins with it."""
MAX_SAMPLES = 65
"""Samples that are kept: those of an hour, and some for windows that begin between two of them."""
KEPT_LABELS: Mapping[str, tuple[str, ...]] = {
    "tms_http_requests_total": ("status",),
    "tms_http_request_seconds_bucket": ("le",),
    "tms_database_errors_total": ("reason",),
    "tms_handover_seconds_bucket": ("account_class", "type", "le"),
    "tms_transport_replies_total": ("type", "transport", "reply"),
    "tms_recipient_outcomes_total": ("account_class", "type", "outcome"),
    "tms_webhook_outages_total": (),
}
"""Count -> its labels that are kept; it is summed over all others."""
PROBES = {"/healthz", "/readyz", "/metrics"}
"""Routes of requests that are left out: they come at a steady rate, however few clients send."""


def sample_of(all_counts: Iterable[Counts]) -> Counts:
    """The sums of the counts by the labels that are kept, without requests that only look at the service."""
    sums: Counts = {}
    for counts in all_counts:
        for (name, labels), value in counts.items():
            if name in KEPT_LABELS and dict(labels).get("route") not in PROBES:
                kept = tuple((label, text) for label, text in labels if label in KEPT_LABELS[name])
                add(sums, {(name, tuple(sorted(kept))): value})
    return sums


class RecentCounts:
    """The samples in the folder in which the processes of this host share their counts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / SAMPLES_FILE

    def is_due(self) -> bool:
        """Whether the latest sample is older than a minute, or there is none."""
        try:
            return not 0 <= time.time() - self._file.stat().st_mtime < SAMPLE_SECONDS
        except OSError:
            return True

    def write(self, all_counts: Iterable[Counts]) -> None:
        """Adds a sample, unless another process is writing. Raises `OSError`."""
        with contextlib.ExitStack() as locks:
            if lock_if_free(self._folder / "recent.lock", os.O_RDWR | os.O_CREAT, locks) and self.is_due():
                samples = [*self._samples(), (time.time(), sample_of(all_counts))][-MAX_SAMPLES:]
                content = [{"time": moment, **listed_counts(counts)} for moment, counts in samples]
                replace_content(self._file, {"samples": content})

    def growths(self, all_counts: Iterable[Counts], windows: Iterable[int]) -> dict[int, Counts]:
        """How much the counts have grown in each of these windows, in seconds: since the latest sample that is old
        enough, or else the oldest. A count that has become smaller was begun anew. A window has no growth without a
        sample in it or shortly before it, as after a pause of the service."""
        now, samples, latest = time.time(), self._samples(), sample_of(all_counts)
        growths = {}
        for seconds in windows:
            recent = [sample for sample in samples if sample[0] >= now - seconds - MAX_GAP]
            old_enough = [counts for moment, counts in recent if moment <= now - seconds]
            if recent:
                growths[seconds] = _grown(old_enough[-1] if old_enough else recent[0][1], latest)
        return growths

    def _samples(self) -> list[tuple[float, Counts]]:
        samples = read_content(self._file).get("samples")
        try:
            return [(float(sample["time"]), counts_of(sample)) for sample in samples or ()]
        except (AttributeError, KeyError, TypeError, ValueError):
            return []


def _grown(before: Counts, latest: Counts) -> Counts:
    counts = {key: (value, before.get(key, 0.0)) for key, value in latest.items()}
    return {key: value - earlier if value >= earlier else value for key, (value, earlier) in counts.items()}
