"""Requests and transactions at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from sqlalchemy import text
from werkzeug.test import TestResponse

from app.services import Services
from tests.support.servers import PATIENCE, wait_until


def at_once(requests: Sequence[Callable[[], TestResponse]]) -> list[TestResponse]:
    """Runs the requests in threads that start together."""
    barrier = threading.Barrier(len(requests))

    def run(request: Callable[[], TestResponse]) -> TestResponse:
        barrier.wait(PATIENCE)
        return request()

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(run, requests))


@contextmanager
def meanwhile(services: Services, work: Callable[[], object]) -> Iterator[None]:
    """Starts the work in a thread, and enters the block once it is done or waits for a lock of PostgreSQL."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        if services.database.is_postgresql:
            wait_until(lambda: running.done() or _is_waiting(services), "the work is done or waits")
        yield
    running.result()


def _is_waiting(services: Services) -> bool:
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with services.database.read() as session:
        return bool(session.scalar(waiting))
