"""The threads of a process, which share one poller: whichever gets the report of a client's readiness reads from it,
and answers the request itself once it is complete, so that no request is passed from one thread to another.

There is one more thread than requests are answered at once. So one of them always polls, and while all others wait for
a database that hangs, it still reads, expires and refuses requests, and answers the exempt ones.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from app.errors import ServiceError
from app.http.server.connection import Connection, ConnectionState
from app.http.server.connections import Connections, Poller
from app.http.server.outgoing import BrokenStream
from app.http.server.request import Limits, Request, invalid
from app.http.server.respond import Repetition

logger = logging.getLogger(__name__)


# Limits how many requests are answered at once; the others wait for a thread in the order in which they became
# complete.


@dataclass(slots=True)
class PendingRequest:
    """A complete request and the connection to which its response goes; without a request, a streamed response that is
    to be continued."""

    connection: Connection
    request: Request | None
    since: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.request is not None and self.request.attempts.waiting_since is None:
            self.request.attempts.waiting_since = self.since

    @property
    def left(self) -> float:
        """Seconds from then on after which the request must not be begun any more."""
        budget = self.request.attempts.budget if self.request is not None else None
        return math.inf if budget is None else budget.left


class Admission:
    """At most `most` requests have a thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._running = 0
        self._waiting: deque[PendingRequest] = deque()

    def enter(self, pending: PendingRequest) -> bool:
        """Whether the caller is to answer the request; otherwise it waits, and a thread that has answered another one
        takes it."""
        with self._lock:
            if self._running < self._most:
                self._running += 1
                return True
            self._waiting.append(pending)
            return False

    def append(self, pending: PendingRequest) -> None:
        """Makes the request wait behind the others. For a caller that has entered and will call `leave`."""
        with self._lock:
            self._waiting.append(pending)

    def leave(self) -> PendingRequest | None:
        """The caller has answered its request; returns the next one that it is to answer, or None if none waits."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None

    def take_overdue(self, moment: float, seconds: float) -> list[PendingRequest]:
        """Removes the requests that have waited for longer than so many seconds, or than a repeated one may wait."""
        with self._lock:
            overdue, waiting = list[PendingRequest](), deque[PendingRequest]()
            for pending in self._waiting:
                is_overdue = moment - pending.since > min(seconds, pending.left)
                (overdue if is_overdue else waiting).append(pending)
            self._waiting = waiting
            return overdue


# Reading requests from connections, in the thread that owns them.


READ_BYTES = 64 * 1024
MAX_READS = 16
"""Reads per report, so that a fast client does not keep the thread from the others."""
MISSING_PART = {ConnectionState.HEAD: "header", ConnectionState.BODY: "body"}
"""The part that an incomplete request lacks."""


class Receiver:
    """Reads what has arrived, and refuses what must not arrive."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def read(self, connection: Connection, buffer: memoryview) -> PendingRequest | None:
        """Reads what has arrived. Returns the connection's request if it is to be answered now. Otherwise the
        connection waits for its client, or is closed."""
        for _ in range(MAX_READS):
            try:
                count = connection.sock.recv_into(buffer)
            except BlockingIOError:
                break
            except OSError:
                self._connections.close(connection)
                return None
            if connection.state is ConnectionState.LINGERING:
                if connection.count_lingering(count):
                    self._connections.close(connection)
                    return None
            elif not count:
                return self._on_eof(connection)
            else:
                request = connection.feed(buffer[:count])
                if request is not None:
                    return PendingRequest(connection, request)
            if count < len(buffer):
                break
        if self._connections.is_tight(connection) and not connection.spill():
            return self.refuse(connection, ServiceError("service_unavailable"))
        self._connections.wait(connection)
        return None

    def _on_eof(self, connection: Connection) -> PendingRequest | None:
        """The client has closed its side. It may still wait for the response to an incomplete body."""
        if connection.state is ConnectionState.BODY:
            return self.refuse(connection, invalid("The body ended before it was complete."))
        self._connections.close(connection)
        return None

    def refuse(self, connection: Connection, fault: ServiceError) -> PendingRequest | None:
        """The connection's request, complete or not, as one to be answered with this error. An answer that is not taken
        ends instead."""
        if connection.state in MISSING_PART or connection.state is ConnectionState.PROCESSING:
            try:
                return PendingRequest(connection, connection.refuse(fault))
            except Exception:
                logger.exception("a connection is closed after an error")
        self._connections.close(connection)
        return None

    def expire(self, connection: Connection) -> PendingRequest | None:
        """The client has been too slow: an incomplete request is refused, any other connection is closed."""
        missing = MISSING_PART.get(connection.state)
        if missing is not None:
            return self.refuse(connection, invalid(f"The {missing} of the request did not come in time."))
        self._connections.close(connection)
        return None


HEALTH_PATH = "/healthz"
STOPPING_KEEPALIVE_SECONDS = 2.0
"""Seconds for a request that a client may be sending when the process stops."""

Respond = Callable[[Connection, Request], bool]
"""Computes and sends the response to a request; returns whether the connection is kept alive."""


class PostponedRequests:
    """Requests that are to be repeated later, and have no thread until then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: list[tuple[float, PendingRequest]] = []

    def add(self, pending: PendingRequest, seconds: float) -> None:
        """Adds a request that is due after so many seconds."""
        with self._lock:
            self._requests.append((time.monotonic() + seconds, pending))

    def take_due(self, moment: float) -> list[PendingRequest]:
        """Removes those that are due by then."""
        with self._lock:
            due = [pending for due_at, pending in self._requests if due_at <= moment]
            self._requests = [(due_at, pending) for due_at, pending in self._requests if due_at > moment]
            return due


class AnsweringThreads:
    """Reads and answers the requests of a process; `count` at once."""

    def __init__(self, poller: Poller, connections: Connections, limits: Limits, count: int, respond: Respond) -> None:
        self._poller = poller
        self._connections = connections
        self._limits = limits
        self._count = count
        self._respond = respond
        self._receiver = Receiver(connections)
        self._admission = Admission(count)
        self._passed_on: deque[PendingRequest] = deque()
        self._postponed = PostponedRequests()
        self._probe_answered = True
        self._stopping = self._stopped = False

    def start(self) -> None:
        """Starts the threads. They are daemons: when it stops, the process does not wait for one that hangs."""
        for number in range(self._count + 1):
            threading.Thread(target=self._run, name=f"answering-{number}", daemon=True).start()

    # ------------------------------------------------------------------------------------------ called by the worker

    def expire(self, connection: Connection) -> None:
        """The client of a connection that the caller owns has been too slow."""
        if self._stopping:
            self._connections.close(connection)
        else:
            self._pass_on(self._receiver.expire(connection))

    def refuse_overdue(self, moment: float) -> None:
        """Refuses requests that have waited for a thread for too long."""
        for waiting in self._admission.take_overdue(moment, self._limits.queue_seconds):
            self._pass_on(self._receiver.refuse(waiting.connection, ServiceError("service_unavailable")))

    def _relieve(self) -> None:
        """Refuses, or cuts off, those for which the most is held."""
        for largest in self._connections.take_largest():
            self._pass_on(self._receiver.refuse(largest, ServiceError("service_unavailable")))

    def repeat_due(self, moment: float) -> None:
        """Repeats the requests that are due by then."""
        for pending in self._postponed.take_due(moment):
            pending.connection.rewind_body()
            self._pass_on(PendingRequest(pending.connection, pending.request))

    def _pass_on(self, pending: PendingRequest | None) -> None:
        """Has a thread answer the request."""
        if pending is not None:
            self._passed_on.append(pending)
            self._poller.wake()

    def probe(self) -> bool:
        """Whether a thread has polled since the last call."""
        answered, self._probe_answered = self._probe_answered, False
        self._poller.wake()
        return answered

    def begin_stop(self) -> None:
        """From now on connections are kept only for a moment."""
        self._stopping = True

    def stop(self) -> None:
        """Ends each thread once it has nothing to do."""
        self._stopped = True
        self._poller.wake()

    # ------------------------------------------------------------------------------------------ in each thread

    def _run(self) -> None:
        buffer = memoryview(bytearray(READ_BYTES))
        while not self._stopped:
            try:
                self._turn(buffer)
            except Exception:
                logger.exception("a thread continues after an error")
        self._poller.wake()  # the next one

    def _turn(self, buffer: memoryview) -> None:
        descriptor = self._poller.poll()
        if descriptor is None:
            self._probe_answered = True
            self._answer_passed_on()
            return
        connection = self._connections.take(descriptor)
        if connection is not None:
            self._proceed(connection, buffer)
            if self._connections.is_too_much:
                self._relieve()

    def _answer_passed_on(self) -> None:
        while self._passed_on:
            try:
                pending = self._passed_on.popleft()
            except IndexError:
                return  # another thread was faster
            if self._passed_on:
                self._poller.wake()  # for another thread: this one may wait for the database
            self._dispatch(pending)

    def _proceed(self, connection: Connection, buffer: memoryview) -> None:
        try:
            if connection.state is ConnectionState.RESPONSE:
                pending = self._after_flush(connection)
            else:
                pending = self._receiver.read(connection, buffer)
        except Exception:
            logger.exception("a connection is closed after an error")
            self._connections.close(connection)
            return
        if pending is not None:
            self._dispatch(pending)

    def _after_flush(self, connection: Connection) -> PendingRequest | None:
        """Sends more of a response, of which the rest may have to be produced first: that needs a thread as a request
        does."""
        connection.flush()
        if connection.stream is None or connection.unsent or connection.broken:
            return self._after_response(connection)
        connection.pause()
        return PendingRequest(connection, None)

    # ------------------------------------------------------------------------------------------ answering

    def _dispatch(self, pending: PendingRequest) -> None:
        """Answers the request, then those that wait for a thread."""
        self._connections.complete(pending.connection)
        following = self._answer_exempt(pending)
        if following is None or not self._admission.enter(following):
            return
        answered: PendingRequest | None = following
        while answered is not None:
            following = self._answer_exempt(self._answer(answered))
            if following is not None:
                self._admission.append(following)
            answered = self._admission.leave()

    def _answer_exempt(self, pending: PendingRequest | None) -> PendingRequest | None:
        """Answers the request at once if it is exempt, and those that follow it; returns the first that is not."""
        while pending is not None and _is_exempt(pending.request):
            pending = self._answer(pending)
        return pending

    def _answer(self, pending: PendingRequest) -> PendingRequest | None:
        """Answers a request; returns the next one of the same client if it has arrived."""
        connection = pending.connection
        try:
            if pending.request is None:
                connection.continue_stream()
            else:
                connection.keep_alive = self._respond(connection, pending.request)
                connection.end_request()
            return self._after_response(connection)
        except Repetition as repetition:
            self._postponed.add(pending, repetition.seconds)
            return None
        except BrokenStream:
            self._connections.close(connection)
            return None
        except BaseException:
            logger.exception("a connection is closed after an error")
            self._connections.close(connection)
            return None

    def _after_response(self, connection: Connection) -> PendingRequest | None:
        """After the response, or a part of it; returns the next request if it has arrived."""
        if connection.broken:
            self._connections.close(connection)
        elif connection.unsent or connection.stream is not None:
            connection.await_client()
            connection.store_output(at_once=self._connections.is_tight(connection))
            self._connections.wait(connection, writing=True)
            if self._connections.is_too_much:
                self._relieve()
        elif connection.keep_alive:
            connection.await_request(STOPPING_KEEPALIVE_SECONDS if self._stopping else self._limits.keepalive_seconds)
            request = connection.next_request()
            if request is not None:
                return PendingRequest(connection, request)
            self._connections.wait(connection)
        elif connection.begin_lingering_close():
            self._connections.close(connection)
        else:
            self._connections.wait(connection)
        return None


def _is_exempt(request: Request | None) -> bool:
    """Whether it must be answered even if all threads hang: /healthz, and invalid requests, of which hundreds may come
    at once. Neither waits for the database or Redis."""
    return request is not None and (request.fault is not None or str(request.path).rstrip("/") == HEALTH_PATH)
