"""Threads that share a poller: who answers, what waits, and what is answered although all threads hang."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import pytest
from gunicorn.config import Config

from app.http.server import connections
from app.http.server.answering_threads import AnsweringThreads
from app.http.server.connection import Connection
from app.http.server.connections import Connections
from app.http.server.request import MEMORY_WEIGHT, Limits, Request
from app.settings import Settings
from tests.support.servers import PATIENCE, wait_until
from tests.unit.server.test_poller import KINDS

THREADS = 2
MOST_HELD = 400_000
SENT = "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Stage:
    """Threads with a view that holds requests back: /hold until `gate` opens, and with `holds_health` also /healthz."""

    limits: Limits
    kind: str
    gate: threading.Event = field(default_factory=threading.Event)
    holding: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    holds_health: bool = False
    counts: list[int] = field(default_factory=list)
    clients: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __post_init__(self) -> None:
        made = getattr(connections, self.kind)()
        self.connections = Connections(made, MOST_HELD, self.counts.append)
        self.threads = AnsweringThreads(made, self.connections, self.limits, THREADS, self.respond)
        before = set(threading.enumerate())
        self.threads.start()
        self.started = set(threading.enumerate()) - before

    def respond(self, connection: Connection, request: Request) -> bool:
        path = str(request.path)
        if path == "/hold" or (self.holds_health and path == "/healthz"):
            self.holding.release()
            assert self.gate.wait(PATIENCE)
        if path == "/exit":
            raise SystemExit
        said = b"fault" if request.fault else path.encode()
        connection.sendall(b"%b\n" % said)
        connection.flush()
        return not request.should_close()

    def connect(self) -> Client:
        """A client."""
        client, server = map(self.clients.enter_context, socket.socketpair())
        client.settimeout(PATIENCE)
        self.connections.add(Connection(Config(), server, ("127.0.0.1", 1), ("127.0.0.1", 2), self.limits))
        return Client(client, self.clients.enter_context(client.makefile("rb")))

    def hold(self, count: int, path: str = "/hold") -> list[Client]:
        """Sends `count` requests, each of which occupies a thread."""
        held = [self.connect() for _ in range(count)]
        for client in held:
            client.send(path)
        for _ in held:
            assert self.holding.acquire(timeout=PATIENCE)
        return held


class Client:
    """A client whose answers are lines."""

    def __init__(self, link: socket.socket, answers: BinaryIO) -> None:
        self.link = link
        self._answers = answers

    def send(self, *paths: str) -> None:
        self.link.sendall("".join(SENT % path for path in paths).encode())

    def answer(self) -> str:
        """The next one; empty at the end of the connection."""
        return self._answers.readline().decode().strip()

    def ask(self, path: str) -> str:
        self.send(path)
        return self.answer()


@pytest.fixture(params=KINDS)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    made = Stage(Limits.of(Settings(secret_key="x" * 32)), request.param)
    try:
        yield made
    finally:
        made.gate.set()
        made.threads.stop()
        for thread in made.started:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        made.clients.close()


def test_while_all_threads_hang_health_and_invalid_requests_are_answered(stage: Stage) -> None:
    held = stage.hold(THREADS)
    client = stage.connect()
    assert [client.ask("/healthz"), client.ask("/healthz/")] == ["/healthz", "/healthz/"]
    client.link.sendall(b"nonsense\r\n\r\n")
    assert client.answer() == "fault"
    stage.gate.set()
    assert [client.answer() for client in held] == ["/hold"] * THREADS


def test_a_request_without_a_thread_is_answered_by_the_next_thread_that_is_free(stage: Stage) -> None:
    held, waiting = stage.hold(THREADS), [stage.connect() for _ in range(5)]
    for client in waiting:
        client.send("/late")
    assert stage.connect().ask("/healthz") == "/healthz"
    stage.gate.set()
    assert [client.answer() for client in waiting] == ["/late"] * 5
    assert [client.ask("/again") for client in held + waiting][:1] == ["/hold"]


def test_pipelined_requests_are_answered_in_order_whatever_waits(stage: Stage) -> None:
    stage.hold(THREADS)
    client = stage.connect()
    paths = ["/a", "/healthz", "/b", "/c", "/healthz", "/d"] * 20
    client.send(*paths)
    stage.gate.set()
    assert [client.answer() for _ in paths] == paths


def test_a_request_that_waits_too_long_is_refused_in_its_place(stage: Stage) -> None:
    held = stage.hold(THREADS)
    client = stage.connect()
    client.send("/late")
    answers: list[str] = []
    reader = threading.Thread(target=lambda: answers.append(client.answer()))
    reader.start()

    def refused() -> bool:
        stage.threads.refuse_overdue(time.monotonic() + stage.limits.queue_seconds)
        return bool(answers)

    wait_until(refused, "it is refused")
    assert answers == ["fault"]
    assert client.answer() == ""
    stage.gate.set()
    assert [client.answer() for client in held] == ["/hold"] * THREADS


def test_an_expired_request_is_refused_although_all_threads_hang(stage: Stage) -> None:
    stage.hold(THREADS)
    client = stage.connect()
    client.link.sendall(b"GET /half")

    def expired() -> bool:
        for connection in stage.connections.take_expired(float("inf")):
            stage.threads.expire(connection)
        return is_readable(client.link)

    # Once with the part of a header; before that, the connection would be closed without an answer.
    wait_until(lambda: stage.connections.count == 1 + THREADS and buffered(stage) == len(b"GET /half"), "it is read")
    wait_until(expired, "it has expired")
    assert client.answer() == "fault"


def buffered(stage: Stage) -> int:
    """What is counted for the incomplete request that has waited longest for its client, in bytes of memory."""
    connection = stage.connections.take_oldest()
    if connection is None:
        return 0
    stage.connections.wait(connection)
    return connection.counted // MEMORY_WEIGHT


def is_readable(link: socket.socket) -> bool:
    """Whether any byte has arrived."""
    link.setblocking(False)
    try:
        return bool(link.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        link.settimeout(PATIENCE)


def test_the_heartbeat_goes_on_while_a_thread_polls_and_not_longer(stage: Stage) -> None:
    stage.hold(THREADS)
    wait_until(stage.threads.probe, "the thread that is left has polled")
    stage.holds_health = True
    stage.hold(1, "/healthz")
    stage.threads.probe()
    assert not stage.threads.probe()
    assert not stage.threads.probe()
    stage.gate.set()
    wait_until(stage.threads.probe, "the threads poll again")


def test_an_error_outside_the_application_ends_the_connection_and_no_thread(stage: Stage) -> None:
    for _ in range(2 * THREADS + 2):
        assert stage.connect().ask("/exit") == ""
    assert stage.connect().ask("/fine") == "/fine"
    wait_until(lambda: stage.connections.count == 1, "the others are closed")


def test_a_connection_belongs_to_one_thread_at_a_time(stage: Stage) -> None:
    held = stage.hold(1)
    assert stage.connections.take_oldest() is None  # the only one is being answered
    stage.gate.set()
    assert held[0].answer() == "/hold"
    taken: list[Connection] = []

    def waits() -> bool:
        oldest = stage.connections.take_oldest()
        taken.extend([oldest] if oldest else [])
        return bool(taken)

    wait_until(waits, "it waits for its client")
    held[0].send("/again")
    assert stage.connections.take(taken[0].descriptor) is None
    assert stage.connections.take_expired(float("inf")) == []
    stage.connections.wait(taken[0])
    assert held[0].answer() == "/again"


def test_a_further_part_does_not_make_a_connection_younger(stage: Stage) -> None:
    first, second = stage.connect(), stage.connect()
    first.link.sendall(b"GET /")
    wait_until(lambda: buffered(stage) == 5, "it is read")
    oldest = stage.connections.take_oldest()
    assert oldest is not None
    stage.connections.close(oldest)
    assert first.answer() == ""
    assert second.ask("/fine") == "/fine"


def test_every_change_of_the_number_of_connections_is_told(stage: Stage) -> None:
    clients = [stage.connect() for _ in range(3)]
    for client in clients:
        with contextlib.closing(client.link):
            client.link.shutdown(socket.SHUT_WR)
    wait_until(lambda: stage.connections.count == 0, "all are closed")
    assert stage.counts == [1, 2, 3, 2, 1, 0]


def test_of_too_much_one_request_is_refused_and_not_a_second_one(stage: Stage) -> None:
    large, small = stage.connect(), stage.connect()
    large.link.sendall(b"POST / HTTP/1.1\r\nContent-Length: 300000\r\n\r\n" + b"x" * 270_000)
    wait_until(lambda: buffered(stage) > 270_000 // MEMORY_WEIGHT, "all of it is read, and in a file")
    waiting = stage.connections.take_oldest()
    assert waiting is not None
    small.link.sendall(b"POST / HTTP/1.1\r\nContent-Length: 200000\r\n\r\n" + b"x" * 140_000)
    wait_until(lambda: buffered(stage) > 35_000, "it is read, while another thread has the large one")
    assert stage.connections.take_largest() == []
    stage.connections.wait(waiting)
    assert stage.connections.take_largest() == [waiting]
    assert stage.connections.take_largest() == []
    stage.connections.close(waiting)
    small.link.sendall(b"x" * 60_000)
    assert small.answer() == "/"
