"""Watching requests for whatever waits for the network, by the audit events of Python itself.

Threads that a request starts are watched like the request, whoever starts them: a lookup runs in one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import pytest
from flask import Flask

from app.http.context import EXTENSION
from app.inbound.hooks.ses import FETCH_THREAD_NAME
from app.services import Services

ADDRESS_POSITIONS = {
    "socket.connect": 1,
    "socket.sendto": 1,
    "socket.sendmsg": 1,
    "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0,
    "socket.gethostbyaddr": 0,
    "socket.getnameinfo": 0,
}
"""Event -> where its arguments have the address or the host."""
UNWATCHED_THREADS = {FETCH_THREAD_NAME: "no request waits for it"}


class Watch:
    """What requests have asked of the network, but for their own Redis and PostgreSQL."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self._watched: WeakKeyDictionary[threading.Thread, frozenset[str]] = WeakKeyDictionary()

    @contextmanager
    def request(self, app: Flask) -> Iterator[None]:
        """Watches this thread, and those that it starts."""
        thread = threading.current_thread()
        before = self._watched.get(thread)
        self._watched[thread] = _own_hosts(app)
        try:
            yield
        finally:
            del self._watched[thread]
            if before is not None:
                self._watched[thread] = before

    def starts(self, thread: threading.Thread) -> None:
        """A thread that this one is about to start."""
        addresses = self._watched.get(threading.current_thread())
        if addresses is not None and thread.name not in UNWATCHED_THREADS:
            self._watched[thread] = addresses

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit event."""
        addresses = self._watched.get(threading.current_thread())
        if addresses is None:
            return
        address = arguments[ADDRESS_POSITIONS[event]]
        is_local = isinstance(address, str | bytes) and event in ("socket.connect", "socket.sendto")
        host, port = address[:2] if isinstance(address, tuple) else (address, arguments[1])
        if not is_local and not {f"{host}", f"{host}:{port}", f":{port}"} & addresses:
            self.noted.append(f"{event} {address} in {threading.current_thread().name}")


def _own_hosts(app: Flask) -> frozenset[str]:
    """Hosts, and ports of a loopback address, of Redis and the database of the application."""
    services: Services = app.extensions[EXTENSION]
    urls = [urlsplit(url) for url in (services.settings.redis_url, services.settings.database_url)]
    return frozenset(name for url in urls if url.hostname for name in (url.hostname, f":{url.port}"))


_watches: list[Watch] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ADDRESS_POSITIONS:
        for watch in _watches:
            watch.hear(event, arguments)


@cache
def _install() -> None:
    """An audit hook cannot be removed, so there is one in a process."""
    sys.addaudithook(_hook)


class _Body:
    """The body of a response, which is made while it is read."""

    def __init__(self, watch: Watch, app: Flask, body: Iterable[bytes]) -> None:
        self._watch, self._app, self._body = watch, app, body

    def __iter__(self) -> Iterator[bytes]:
        parts = iter(self._body)
        while True:
            with self._watch.request(self._app):
                part = next(parts, None)
            if part is None:
                return
            yield part

    def close(self) -> None:
        """Ends it."""
        close: Callable[[], None] | None = getattr(self._body, "close", None)
        if close is not None:
            with self._watch.request(self._app):
                close()


@contextmanager
def watched_requests() -> Iterator[Watch]:
    """Watches the requests to all applications of this process."""
    _install()
    watch = Watch()
    call: Any = Flask.__call__
    start = threading.Thread.start

    def watched(app: Flask, environ: Any, start_response: Any) -> Any:
        with watch.request(app):
            body = call(app, environ, start_response)
        return _Body(watch, app, body)

    def started(thread: threading.Thread) -> None:
        watch.starts(thread)
        start(thread)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", started)
        patch.setattr(Flask, "__call__", watched)
        _watches.append(watch)
        try:
            yield watch
        finally:
            _watches.remove(watch)
