"""gunicorn worker with buffered requests and responses, whose processes balance their connections: a thread is busy
with a request only from its last byte until its response is rendered.

gunicorn's own threaded worker gives a connection to a thread with the first byte, and the thread waits for the rest.
Here a slow or silent client occupies only a socket and a buffer, both with a deadline and a limit
(docs/proxy.md#slow-clients). The main thread accepts connections and expires them; the others read and answer
(app/http/server/answering_threads.py).
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import mmap
import os
import selectors
import signal
import socket
import time
from ctypes import c_int, sizeof
from typing import Any

from gunicorn.workers.base import Worker

from app.http.server.answering_threads import STOPPING_KEEPALIVE_SECONDS, AnsweringThreads
from app.http.server.connection import Connection
from app.http.server.connections import Connections, make_poller
from app.http.server.request import Limits, Request, max_connections, read_once
from app.http.server.respond import respond
from app.infrastructure import liveness
from app.settings import from_environment

logger = logging.getLogger(__name__)

CHECK_SECONDS = 0.2
"""Seconds between two checks of the deadlines."""
BEAT_SECONDS = 1.0
"""Seconds between two signs of life for gunicorn's master process."""
DRAIN_SECONDS = 300.0
"""Seconds after which a process that retires ends although clients still have connections to it. Each connection has a
deadline of its own, which is nearly always earlier."""
UNSENT_BYTES = 128 * 1024
"""Bytes of an answer that the system keeps for a client besides those that are on their way."""
FILE_EXHAUSTION_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class BufferingWorker(Worker):  # type: ignore[misc]
    """One process of the API."""

    alive: bool
    connections: Connections

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.limits = Limits.of(from_environment())
        self.max_connections = 0
        self.is_accepting = False
        self.is_retiring = False
        self._request_numbers = itertools.count(1)
        self._checked_at = self._beat_at = 0.0

    @classmethod
    def check_config(cls, cfg: Any, _log: Any) -> None:
        """gunicorn's hook at the start. Raises RuntimeError, which gunicorn logs in one line."""
        if cfg.is_ssl:
            raise RuntimeError("this server speaks plain http; leave TLS (certfile, keyfile) to the proxy in front")

    def init_process(self) -> None:
        liveness.leave()
        read_once(self.cfg)
        self.max_connections = max_connections(self.cfg.worker_connections)
        self._selector = selectors.DefaultSelector()
        poller = make_poller()
        self.connections = Connections(poller, self.limits.held_bytes, self.on_count)
        self._threads = AnsweringThreads(poller, self.connections, self.limits, self.cfg.threads, self.respond)
        super().init_process()

    def init_signals(self) -> None:
        super().init_signals()
        signal.signal(signal.SIGUSR2, self.handle_retire)
        signal.siginterrupt(signal.SIGUSR2, False)

    def handle_retire(self, _number: int, _frame: Any) -> None:
        """Processes with newer code accept connections now."""
        self.is_retiring = self.is_retiring or self.alive
        self.alive = False

    def handle_exit(self, _number: int, _frame: Any) -> None:
        """The service is stopped."""
        self.alive = self.is_retiring = False

    def respond(self, connection: Connection, request: Request) -> bool:
        """Computes and sends the response, in one of the threads. True if the connection is kept alive."""
        if next(self._request_numbers) >= self.max_requests and self.alive:
            logger.info("this process ends after its last request; another process replaces it")
            self.alive = False
            self.wake()
        return respond(connection, request, self.wsgi, self.cfg, last=not self.alive)

    # ------------------------------------------------------------------------------------------ the main thread

    def run(self) -> None:
        """Accepts connections until the process is asked to stop, then waits for the requests in progress."""
        # A signal writes to this pipe (gunicorn has set it up), as does `wake`.
        self._selector.register(self.PIPE[0], selectors.EVENT_READ, self._on_wake)
        self._bound_sending()
        self._threads.start()
        while self.alive and self.is_parent_alive():
            self.set_accepting(self.connections.count < self.max_connections)
            self.turn(BEAT_SECONDS)
        self._end()

    def _bound_sending(self) -> None:
        """The system takes no more of an answer than it can soon send: what its client does not read is counted, or is
        not produced at all. Accepted connections inherit this."""
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            for listener in self.sockets:
                with contextlib.suppress(OSError):  # a socket in the file system
                    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)

    def turn(self, timeout: float) -> None:
        """Waits for events, at most for that many seconds."""
        self._beat()
        for key, _ in self._selector.select(min(timeout, CHECK_SECONDS) if self.connections.count else timeout):
            key.data(key.fileobj)
        self._check_deadlines()

    def _end(self) -> None:
        self.set_accepting(False)
        self._drain()
        self._threads.begin_stop()
        now = time.monotonic()
        until, keep_until = now + self.cfg.graceful_timeout, now + STOPPING_KEEPALIVE_SECONDS
        while self.connections.count and time.monotonic() < until:
            self.connections.cap_deadlines(keep_until)
            self.turn(CHECK_SECONDS)
        self._threads.stop()
        for listener in self.sockets:
            listener.close()

    def _drain(self) -> None:
        """Until it is to stop, a process that retires answers what comes on the connections that it has. Each is closed
        after its next response. One that stays idle is closed no sooner than ever: a client that sends at that moment
        would get no answer, and clients and proxies give up idle connections before that."""
        if self.is_retiring:
            logger.info("newer code accepts connections now; this process ends after its last connection")
        until = time.monotonic() + DRAIN_SECONDS
        while self.is_retiring and self.connections.count and time.monotonic() < until and self.is_parent_alive():
            self.turn(CHECK_SECONDS)

    def is_parent_alive(self) -> bool:
        """Whether gunicorn's master process is alive."""
        if self.ppid == os.getppid():
            return True
        logger.info("this process ends: gunicorn's master process has died")
        return False

    def wake(self) -> None:
        """Ends the main thread's wait. For any thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self.PIPE[1], b"\0")

    def _on_wake(self, descriptor: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(descriptor, 4096)

    def _beat(self) -> None:
        """gunicorn's master kills a process without a sign of life; there is none when no thread polls any longer."""
        now = time.monotonic()
        if now - self._beat_at >= BEAT_SECONDS:
            self._beat_at = now
            if self._threads.probe():
                self.notify()

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        if now - self._checked_at >= CHECK_SECONDS:
            self._checked_at = now
            for connection in self.connections.take_expired(now):
                self._threads.expire(connection)
            self._threads.refuse_overdue(now)
            self._threads.repeat_due(now)

    # ------------------------------------------------------------------------------------------ accepting

    def set_accepting(self, accepting: bool) -> None:
        """Starts or stops waiting for new connections."""
        if accepting != self.is_accepting:
            self.is_accepting = accepting
            for listener in self.sockets:
                listener.setblocking(False)
                if accepting:
                    self._selector.register(listener, selectors.EVENT_READ, self.accept)
                else:
                    self._selector.unregister(listener)

    def accept(self, listener: Any) -> None:
        """Accepts a connection; at the limit, the one that has waited longest for its client is closed."""
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno in FILE_EXHAUSTION_ERRORS:
                self._close_oldest()
            elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        if self.connections.count + 1 >= self.max_connections:
            self._close_oldest()
        self.connections.add(Connection(self.cfg, sock, client, listener.getsockname(), self.limits))

    def _close_oldest(self) -> None:
        connection = self.connections.take_oldest()
        if connection is not None:
            self.connections.close(connection)

    def on_count(self, _count: int) -> None:
        """The number of connections has changed; called by any thread, under the lock of the connections."""
        if not self.is_accepting:
            self.wake()


SLOTS = 256
UNUSED_SLOT = -1
DEFER_SECONDS = 0.002
"""Seconds for which a connection is left to other processes."""

# Created in gunicorn's master, which loads this module before it forks the first process.
# Anonymous memory: a mapped file would end the process on a full disk.
_connection_counts: Any = (c_int * SLOTS).from_buffer(mmap.mmap(-1, SLOTS * sizeof(c_int)))
_connection_counts[:] = [UNUSED_SLOT] * SLOTS


def accepting_workers() -> int:
    """How many processes accept connections. For the master."""
    return sum(count > UNUSED_SLOT for count in _connection_counts)


def _slot(worker: Any) -> int:
    """`age` counts the processes that the master has started; there are never as many at once as slots."""
    return int(worker.age) % SLOTS


def child_exit(_server: object, worker: Any) -> None:
    """gunicorn's hook, called in the master: a process has ended."""
    _connection_counts[_slot(worker)] = UNUSED_SLOT


class BalancedWorker(BufferingWorker):
    """A process of the API. One with fewer connections than the others gets a new one.

    Clients keep their connections, and a pool opens several at once. gunicorn's own worker accepts all of them in
    whichever process wakes up first, and the other processors idle from then on. Here each process publishes its number
    of connections in shared memory. A process with more connections than another defers accepting for a moment; if the
    connection is still waiting then, it accepts it, so that a process that hangs keeps no client out.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deferred_until = 0.0
        self.turned = time.monotonic()
        """When its main thread last turned."""

    def run(self) -> None:
        self.on_count(0)
        super().run()

    def accept(self, listener: Any) -> None:
        """Accepts a waiting connection, unless another process has fewer."""
        if self._should_defer():
            self._deferred_until = time.monotonic() + DEFER_SECONDS
            self.set_accepting(False)
            return
        super().accept(listener)

    def _should_defer(self) -> bool:
        """Whether to leave a new connection to other processes for now: at most once, as after the delay it is accepted
        whatever the counts."""
        if time.monotonic() - self._deferred_until < DEFER_SECONDS:
            return False
        own_count = self.connections.count
        return any(UNUSED_SLOT < count < own_count for count in _connection_counts)

    def set_accepting(self, accepting: bool) -> None:
        """Does not start accepting before the delay is over."""
        if not accepting or time.monotonic() >= self._deferred_until:
            super().set_accepting(accepting)

    def turn(self, timeout: float) -> None:
        """Ends the delay in time."""
        self.turned = time.monotonic()
        left = self._deferred_until - time.monotonic()
        super().turn(min(timeout, left) if left > 0 else timeout)

    def on_count(self, count: int) -> None:
        """Publishes the number for the other processes."""
        _connection_counts[_slot(self)] = count
        super().on_count(count)
