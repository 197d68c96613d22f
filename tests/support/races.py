"""Requests at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from werkzeug.test import TestResponse


def at_once(requests: Sequence[Callable[[], TestResponse]]) -> list[TestResponse]:
    """Runs the requests in threads that start together."""
    barrier = threading.Barrier(len(requests))

    def run(request: Callable[[], TestResponse]) -> TestResponse:
        barrier.wait(10)
        return request()

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(run, requests))
