"""gunicorn's threaded worker with buffered requests and responses: its event loop reads requests and writes responses,
and a thread is busy with a request only from when it is complete until its response is made.

gunicorn's own worker gives a connection to a thread with the first byte, and the thread waits for the rest. Here a slow
or silent client occupies a socket and a buffer, both with a deadline and a limit.
"""

from __future__ import annotations

import errno
import logging
import selectors
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, ThreadWorker

from app.errors import ServiceError
from app.http.server.connection import Connection, ConnectionState
from app.http.server.limits import Limits, max_connections
from app.http.server.request import Request, invalid
from app.http.server.respond import respond
from app.settings import from_environment

logger = logging.getLogger(__name__)

READ_BYTES = 64 * 1024
CHECK_SECONDS = 0.2
"""Seconds between two checks of the deadlines."""
HEALTH_PATH = "/healthz"
"""Must answer while all threads wait for a database that hangs: it has a thread of its own. So have invalid requests,
of which hundreds may come at once."""
NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class BufferingWorker(ThreadWorker):  # type: ignore[misc]
    """One process of the API."""

    alive: bool

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.limits = Limits.of(from_environment())
        self._health_thread = ThreadPoolExecutor(max_workers=1)
        self._error_thread = ThreadPoolExecutor(max_workers=1)
        # Connections that wait for their client, the longest waiting first.
        self._awaiting_client: dict[Connection, None] = {}
        # Connections that wait for a thread.
        self._awaiting_thread: dict[Connection, Future[bool]] = {}
        self._buffered = 0
        self._checked_at = 0.0
        self._read_buffer = memoryview(bytearray(READ_BYTES))

    @classmethod
    def check_config(cls, cfg: Any, _log: Any) -> None:
        """gunicorn's hook at the start. Raises RuntimeError, which gunicorn logs in one line."""
        if cfg.is_ssl:
            raise RuntimeError("this server speaks plain http; leave TLS (certfile, keyfile) to the proxy in front")

    def init_process(self) -> None:
        self.worker_connections = max_connections(self.cfg.worker_connections)
        super().init_process()

    # ------------------------------------------------------------------------------------------ receiving

    def accept(self, listener: Any) -> None:
        """Accepts a connection; at the limit, the one that has waited longest for its client is closed."""
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno in NO_FILES:
                self._close_oldest()
            elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        if self.nr_conns + 1 >= self.worker_connections:
            self._close_oldest()
        self.nr_conns += 1
        connection = Connection(self.cfg, sock, client, listener.getsockname(), self.limits)
        self._wait(connection, selectors.EVENT_READ)
        self._on_event(connection)

    def _close_oldest(self) -> None:
        for connection in self._awaiting_client:
            self._close(connection)
            return

    def _on_event(self, connection: Connection, _link: Any = None) -> None:
        if not connection.poll_events:
            return  # closed by another connection's event of the same turn
        if connection.state is ConnectionState.PROCESSING:
            # More data has arrived, or the client is gone: handled after the response.
            connection.unread = True
            self._watch(connection, 0)
        elif connection.state is ConnectionState.RESPONSE:
            connection.flush()
            self._after_response(connection)
        else:
            self._read(connection)

    def _read(self, connection: Connection) -> None:
        try:
            count = connection.sock.recv_into(self._read_buffer)
        except BlockingIOError:
            return
        except OSError:
            self._close(connection)
            return
        if connection.state is ConnectionState.LINGERING:
            if connection.count_lingering(count):
                self._close(connection)
        elif not count:
            self._on_eof(connection)
        else:
            self._buffered += count
            connection.size += count
            request = connection.feed(self._read_buffer[:count])
            if request is not None:
                self._dispatch(connection, request)
            elif self._buffered > self.limits.buffered_bytes:
                self._refuse(self._largest_incoming(), ServiceError("service_unavailable"))

    def _largest_incoming(self) -> Connection:
        """The connection with the most buffered bytes of an incomplete request."""
        incoming = (ConnectionState.HEAD, ConnectionState.BODY)
        return max((c for c in self._awaiting_client if c.state in incoming), key=lambda c: c.size)

    def _on_eof(self, connection: Connection) -> None:
        """The client has closed its side. It may still wait for the response to an incomplete body."""
        if connection.state is ConnectionState.BODY:
            self._refuse(connection, invalid("The body ended before it was whole."))
        else:
            self._close(connection)

    def _refuse(self, connection: Connection, fault: ServiceError) -> None:
        self._buffered -= connection.size
        connection.size = 0
        self._dispatch(connection, connection.refuse(fault))

    # ------------------------------------------------------------------------------------------ threads

    def _dispatch(self, connection: Connection, request: Request) -> None:
        self._awaiting_client.pop(connection, None)
        if request.fault is not None:
            future = self._error_thread.submit(self.handle, connection, request)
        elif str(request.path).rstrip("/") == HEALTH_PATH:
            future = self._health_thread.submit(self.handle, connection, request)
        else:
            future = self.tpool.submit(self.handle, connection, request)
            connection.queued_at = time.monotonic()
            self._awaiting_thread[connection] = future
        future.add_done_callback(lambda done: self.method_queue.defer(self.finish_request, connection, done))

    def handle(self, connection: Connection, request: Request) -> bool:
        """In a thread: makes the response. True when the connection is kept alive."""
        self.nr += 1
        if self.nr >= self.max_requests and self.alive:
            logger.info("this process ends after its last request; another takes its place")
            self.alive = False
        return respond(connection, request, self.wsgi, self.cfg, last=not self.alive)

    def finish_request(self, connection: Connection, done: Future[bool]) -> None:
        """Back in the event loop."""
        self._awaiting_thread.pop(connection, None)
        if done.cancelled():
            self._dispatch(connection, connection.refuse(ServiceError("service_unavailable")))
            return
        connection.keep_alive = done.exception() is None and done.result()
        self._buffered -= connection.size
        connection.end_request()
        self._buffered += connection.size
        self._after_response(connection)

    def _after_response(self, connection: Connection) -> None:
        """After the response, or a part of it."""
        if connection.broken:
            self._close(connection)
        elif connection.unsent:
            connection.await_client()
            self._wait(connection, selectors.EVENT_WRITE)
        elif connection.keep_alive:
            connection.await_request(self.limits.keepalive_seconds if self.alive else STOP_KEEPALIVE_LINGER)
            self._wait(connection, selectors.EVENT_READ)
            request = connection.next_request()
            if request is not None:
                self._dispatch(connection, request)
        elif connection.begin_lingering_close():
            self._close(connection)
        else:
            self._wait(connection, selectors.EVENT_READ)

    # ------------------------------------------------------------------------------------------ waiting

    def _wait(self, connection: Connection, events: int) -> None:
        self._awaiting_client[connection] = None
        self._watch(connection, events)

    def _watch(self, connection: Connection, events: int) -> None:
        if events == connection.poll_events:
            return
        if not events:
            self.poller.unregister(connection.sock)
        elif connection.poll_events:
            self.poller.modify(connection.sock, events, partial(self._on_event, connection))
        else:
            self.poller.register(connection.sock, events, partial(self._on_event, connection))
        connection.poll_events = events

    def _close(self, connection: Connection) -> None:
        self._awaiting_client.pop(connection, None)
        self._watch(connection, 0)
        self._buffered -= connection.size
        connection.size = 0
        connection.close()
        self.nr_conns -= 1

    def murder_keepalived(self, force: bool = False) -> None:
        """gunicorn's loop calls it in every turn: expires connections past their deadline, with `force` all that wait
        for their clients."""
        now = time.monotonic()
        if not force and now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        for connection in [c for c in self._awaiting_client if force or c.deadline < now]:
            self._expire(connection, force=force)
        for connection, future in list(self._awaiting_thread.items()):
            if now - connection.queued_at < self.limits.queue_seconds:
                break
            future.cancel()  # without effect once it runs; `finish_request` handles a cancelled one

    def _expire(self, connection: Connection, *, force: bool) -> None:
        missing = {ConnectionState.HEAD: "header", ConnectionState.BODY: "body"}.get(connection.state)
        if missing is None or force or not self.alive:
            self._close(connection)
        else:
            self._refuse(connection, invalid(f"The {missing} of the request did not come in time."))

    def _cap_keepalive(self, deadline: float) -> None:
        """gunicorn's loop calls it once, when the process is to end: a body under way may still arrive."""
        for connection in self._awaiting_client:
            if connection.state in (ConnectionState.IDLE, ConnectionState.HEAD, ConnectionState.LINGERING):
                connection.deadline = min(connection.deadline, deadline)

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        has_deadlines = self._awaiting_client or self._awaiting_thread
        super().wait_for_and_dispatch_events(min(timeout, CHECK_SECONDS) if has_deadlines else timeout)
