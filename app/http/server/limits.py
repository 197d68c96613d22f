"""Limits of what an unauthenticated client can use of a process."""

from __future__ import annotations

import logging
import resource
import time
from dataclasses import dataclass

from app.settings import Settings

logger = logging.getLogger(__name__)

MAX_REQUEST_LINE = 256 * 1024
"""Maximum of a request line. A filter takes 1,000 values (docs/querying.md#filters), which is more than gunicorn's own
maximum."""

MEMORY_WEIGHT = 4
"""A byte in memory counts as much as that many in a file."""

OTHER_FILES = 200
"""File descriptors that a process needs besides those of its clients."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, sizes in bytes (docs/settings.md)."""

    header_seconds: float
    body_seconds: float
    least_rate: int
    keepalive_seconds: float
    queue_seconds: float
    body_bytes: int
    held_bytes: int
    trusted_proxies: int

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        return cls(
            header_seconds=settings.header_seconds,
            body_seconds=settings.body_seconds,
            least_rate=settings.least_rate,
            keepalive_seconds=settings.keepalive_seconds,
            queue_seconds=settings.queue_seconds,
            body_bytes=settings.max_request_bytes,
            held_bytes=settings.web_buffer_bytes,
            trusted_proxies=settings.trusted_proxies,
        )

    def transfer_deadline(self, began: float, size: int) -> float:
        """When the client must have sent or taken more than these bytes, of which it has just sent or taken the
        last."""
        return min(began + size / self.least_rate, time.monotonic()) + self.body_seconds


def max_connections(wanted: int) -> int:
    """Number of clients that a process can serve, after raising its limit of open files. A client needs two: its
    connection, and the file of a large body."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * wanted + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    files = needed if soft == resource.RLIM_INFINITY else soft
    most = max(1, min(wanted, (files - OTHER_FILES) // 2))
    if most < wanted:
        text = "this process holds %s connections, not WEB_CONNECTIONS=%s: the system lets it open no more files"
        logger.warning(text, most, wanted)
    return most
