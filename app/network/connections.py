"""TCP connections whose name lookup and attempts all end at one deadline."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence

from app.network.lookup import look_up

MIN_SECONDS = 0.001
"""A socket with a timeout of 0 would not wait at all."""


class _Attempts(threading.local):
    """How many connections the current thread has opened, and how many attempts have failed."""

    opened = 0
    failed = 0


attempts = _Attempts()


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """A connected socket with a timeout of `seconds`, which is also the limit for lookup and connection. Raises
    `OSError`."""
    deadline = time.monotonic() + seconds
    try:
        connected = connect_to_any(host, look_up(host, seconds), port, deadline)
    except OSError:
        attempts.failed += 1
        raise
    attempts.opened += 1
    connected.settimeout(seconds)
    return connected


def connect_to_any(host: str, addresses: Sequence[str], port: int, deadline: float) -> socket.socket:
    """Connects to the first address of `host` that accepts; each gets an equal share of the time that is left."""
    failure = OSError(f"{host} has no address")
    for index, address in enumerate(addresses):
        share = seconds_left(deadline) / (len(addresses) - index)
        try:
            return socket.create_connection((address, port), timeout=share)
        except OSError as error:
            failure = error
    raise failure


def seconds_left(deadline: float) -> float:
    """Seconds until the deadline, on the monotonic clock; never 0, so that a socket still waits."""
    return max(deadline - time.monotonic(), MIN_SECONDS)
