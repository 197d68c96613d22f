"""gunicorn's threaded worker with another way of taking requests in: its loop reads them and writes the answers, and a
thread has a request only from the moment it is whole until its answer is made.

gunicorn's own worker gives a connection to a thread with its first byte, and the thread waits for the rest. Here a
client that sends or reads slowly, or not at all, holds a socket and a buffer, both with a deadline and a bound.
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
from app.http.server.connection import Connection, Stage
from app.http.server.limits import Limits, most_connections
from app.http.server.request import Request, invalid
from app.http.server.respond import answer
from app.settings import from_environment

logger = logging.getLogger(__name__)

READ = 64 * 1024
TURN = 0.2
"""Seconds between two looks for what is late."""
EXPRESS = "/healthz"
"""The page that must answer while all threads wait for a database that hangs: it has a thread of its own. So have the
requests that only get an error, of which hundreds may come at once."""
NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Reception(ThreadWorker):  # type: ignore[misc]
    """One process of the API."""

    alive: bool

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.limits = Limits.of(from_environment())
        self._express = ThreadPoolExecutor(max_workers=1)
        self._refusals = ThreadPoolExecutor(max_workers=1)
        # Those that depend on their clients, the longest waiting first.
        self._waiting: dict[Connection, None] = {}
        # Those that depend on a thread.
        self._queued: dict[Connection, Future[bool]] = {}
        self._held = 0
        self._looked_at = 0.0
        self._scratch = memoryview(bytearray(READ))

    @classmethod
    def check_config(cls, cfg: Any, _log: Any) -> None:
        """gunicorn's hook at the start. Raises RuntimeError, which gunicorn tells in one line."""
        if cfg.is_ssl:
            raise RuntimeError("this server speaks plain http; leave TLS (certfile, keyfile) to the proxy in front")

    def init_process(self) -> None:
        """In the new process, before its loop."""
        self.worker_connections = most_connections(self.cfg.worker_connections)
        super().init_process()

    # ------------------------------------------------------------------------------------------ coming in

    def accept(self, listener: Any) -> None:
        """Takes a new connection; where there is no room, the one that has waited longest for its client gives way."""
        try:
            link, client = listener.accept()
        except OSError as error:
            if error.errno in NO_FILES:
                self._make_room()
            elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        if self.nr_conns + 1 >= self.worker_connections:
            self._make_room()
        self.nr_conns += 1
        connection = Connection(self.cfg, link, client, listener.getsockname(), self.limits)
        self._wait(connection, selectors.EVENT_READ)
        self._on_event(connection)

    def _make_room(self) -> None:
        for connection in self._waiting:
            self._drop(connection)
            return

    def _on_event(self, connection: Connection, _link: Any = None) -> None:
        if not connection.watched:
            return  # dropped by another's event of the same turn
        if connection.stage is Stage.BUSY:
            # More has come, or the client is gone: looked at after the answer.
            connection.unread = True
            self._watch(connection, 0)
        elif connection.stage is Stage.ANSWER:
            connection.flush()
            self._go_on(connection)
        else:
            self._read(connection)

    def _read(self, connection: Connection) -> None:
        try:
            count = connection.link.recv_into(self._scratch)
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)
            return
        if connection.stage is Stage.PARTING:
            if connection.drain(count):
                self._drop(connection)
        elif not count:
            self._on_end(connection)
        else:
            self._held += count
            connection.size += count
            request = connection.take(self._scratch[:count])
            if request is not None:
                self._dispatch(connection, request)
            elif self._held > self.limits.held_bytes:
                self._refuse(self._largest(), ServiceError("service_unavailable"))

    def _largest(self) -> Connection:
        """Of those whose requests are on their way."""
        coming = (one for one in self._waiting if one.stage in (Stage.HEAD, Stage.BODY))
        return max(coming, key=lambda one: one.size)

    def _on_end(self, connection: Connection) -> None:
        """The client sends no more. It may still wait for what its half of a body brings."""
        if connection.stage is Stage.BODY:
            self._refuse(connection, invalid("The body ended before it was whole."))
        else:
            self._drop(connection)

    def _refuse(self, connection: Connection, fault: ServiceError) -> None:
        self._held -= connection.size
        connection.size = 0
        self._dispatch(connection, connection.refuse(fault))

    # ------------------------------------------------------------------------------------------ to a thread and back

    def _dispatch(self, connection: Connection, request: Request) -> None:
        self._waiting.pop(connection, None)
        if request.fault is not None:
            future = self._refusals.submit(self.handle, connection, request)
        elif str(request.path).rstrip("/") == EXPRESS:
            future = self._express.submit(self.handle, connection, request)
        else:
            future = self.tpool.submit(self.handle, connection, request)
            connection.queued_at = time.monotonic()
            self._queued[connection] = future
        future.add_done_callback(lambda done: self.method_queue.defer(self.finish_request, connection, done))

    def handle(self, connection: Connection, request: Request) -> bool:
        """In a thread: makes the answer. True when a further request may come."""
        self.nr += 1
        if self.nr >= self.max_requests and self.alive:
            logger.info("this process ends after its last request; another takes its place")
            self.alive = False
        return answer(connection, request, self.wsgi, self.cfg, last=not self.alive)

    def finish_request(self, connection: Connection, done: Future[bool]) -> None:
        """Back in the loop."""
        self._queued.pop(connection, None)
        if done.cancelled():
            self._dispatch(connection, connection.refuse(ServiceError("service_unavailable")))
            return
        connection.keep = done.exception() is None and done.result()
        self._held -= connection.size
        connection.answered()
        self._held += connection.size
        self._go_on(connection)

    def _go_on(self, connection: Connection) -> None:
        """After the answer, or a piece of it."""
        if connection.broken:
            self._drop(connection)
        elif connection.unsent:
            connection.slow_down()
            self._wait(connection, selectors.EVENT_WRITE)
        elif connection.keep:
            connection.wait_for_next(self.limits.keepalive_seconds if self.alive else STOP_KEEPALIVE_LINGER)
            self._wait(connection, selectors.EVENT_READ)
            request = connection.go_on()
            if request is not None:
                self._dispatch(connection, request)
        elif connection.part():
            self._drop(connection)
        else:
            self._wait(connection, selectors.EVENT_READ)

    # ------------------------------------------------------------------------------------------ waiting

    def _wait(self, connection: Connection, events: int) -> None:
        self._waiting[connection] = None
        self._watch(connection, events)

    def _watch(self, connection: Connection, events: int) -> None:
        if events == connection.watched:
            return
        if not events:
            self.poller.unregister(connection.link)
        elif connection.watched:
            self.poller.modify(connection.link, events, partial(self._on_event, connection))
        else:
            self.poller.register(connection.link, events, partial(self._on_event, connection))
        connection.watched = events

    def _drop(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)
        self._watch(connection, 0)
        self._held -= connection.size
        connection.size = 0
        connection.close()
        self.nr_conns -= 1

    def murder_keepalived(self, force: bool = False) -> None:
        """gunicorn's loop calls it in every turn: ends what is late. With `force` all that wait for their clients."""
        now = time.monotonic()
        if not force and now - self._looked_at < TURN:
            return
        self._looked_at = now
        for connection in [one for one in self._waiting if force or one.deadline < now]:
            self._end(connection, force=force)
        for connection, future in list(self._queued.items()):
            if now - connection.queued_at < self.limits.queue_seconds:
                break
            future.cancel()  # not once a thread has it; `finish_request` gets it then

    def _end(self, connection: Connection, *, force: bool) -> None:
        what = {Stage.HEAD: "header", Stage.BODY: "body"}.get(connection.stage)
        if what is None or force or not self.alive:
            self._drop(connection)
        else:
            self._refuse(connection, invalid(f"The {what} of the request did not come in time."))

    def _cap_keepalive(self, deadline: float) -> None:
        """gunicorn's loop calls it once, when the process is to end: a body that is on its way may still come."""
        for connection in self._waiting:
            if connection.stage in (Stage.IDLE, Stage.HEAD, Stage.PARTING):
                connection.deadline = min(connection.deadline, deadline)

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """One turn of gunicorn's loop."""
        super().wait_for_and_dispatch_events(min(timeout, TURN) if self._waiting or self._queued else timeout)
