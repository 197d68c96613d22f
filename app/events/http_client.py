"""HTTP client for webhooks, over urllib3. Receivers may be slow, broken or hostile.

A request follows no redirect, uses no proxy of the environment, sends no cookies, verifies TLS, connects only to
addresses that the SSRF guard has checked (`guarded_connection`), and ends in a bounded time whatever the receiver
does: a watchdog cuts the connection of a receiver that trickles bytes. The connection of a webhook is kept for its next
batch.
"""

from __future__ import annotations

import ssl
import threading
from collections import OrderedDict
from collections.abc import Mapping

from app.clock import now
from app.events.endpoint import Endpoint, PostResult
from app.events.guarded_connection import Target, read_target, trusted_roots
from app.events.watchdog import Watchdog

CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 30.0
MAX_IDLE = 100


class WebhookClient:
    """The endpoints of one process. Its methods may be called from several threads."""

    def __init__(
        self,
        trust: ssl.SSLContext | None = None,
        *,
        connect_timeout: float = CONNECT_TIMEOUT,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        self._trust = trust or trusted_roots()
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._lock = threading.Lock()
        self._watchdog = Watchdog()
        self._idle: OrderedDict[int, Endpoint] = OrderedDict()
        self._busy: set[Endpoint] = set()

    def post(
        self, webhook_id: int, url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool
    ) -> PostResult:
        """Posts the body. Never raises because of the URL, the network or the receiver."""
        try:
            target = read_target(url, allow_private=allow_private)
        except ValueError as error:
            return PostResult(None, str(error), now())
        endpoint = self._check_out(webhook_id, target)
        try:
            return endpoint.post(body, headers)
        finally:
            self._check_in(webhook_id, endpoint)

    def abort(self) -> None:
        """Ends the requests in flight, for a process that must stop."""
        with self._lock:
            busy = list(self._busy)
        for endpoint in busy:
            endpoint.cut()

    def close(self) -> None:
        """Closes the connections that are kept."""
        with self._lock:
            while self._idle:
                self._idle.popitem()[1].close()

    def _check_out(self, webhook_id: int, target: Target) -> Endpoint:
        """The webhook's endpoint, for this thread alone."""
        with self._lock:
            endpoint = self._idle.pop(webhook_id, None)
        if endpoint is not None and endpoint.target != target:
            endpoint.close()
            endpoint = None
        if endpoint is None:
            endpoint = Endpoint(target, self._trust, self._watchdog, self._connect_timeout, self._read_timeout)
        with self._lock:
            self._busy.add(endpoint)
        return endpoint

    def _check_in(self, webhook_id: int, endpoint: Endpoint) -> None:
        surplus: list[Endpoint] = []
        with self._lock:
            self._busy.discard(endpoint)
            replaced = self._idle.pop(webhook_id, None)
            if replaced is not None:
                surplus.append(replaced)
            self._idle[webhook_id] = endpoint
            while len(self._idle) > MAX_IDLE:
                surplus.append(self._idle.popitem(last=False)[1])
        for one in surplus:
            one.close()
