"""A closed loop of HTTP requests over persistent connections, light enough to share the machine with the server.

Each connection has one request outstanding. After some requests it is replaced by a new one, as the pool of a client
does: some servers accept all connections of a burst in one process, and only that one would be measured.
"""

from __future__ import annotations

import itertools
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bench.processes import CaseFailure

END_OF_HEAD = b"\r\n\r\n"
LENGTH = b"\ncontent-length:"
DEADLINE = 60.0
"""Seconds without an answer after which the case fails."""

Check = Callable[[int, bytes], bool]
"""Checks the status and the body of a response."""


def request(method: str, path: str, token: str, body: bytes | None = None) -> bytes:
    """The bytes of a request as a client with a connection pool sends them."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nAccept: */*\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + (body or b"")


@dataclass(slots=True)
class _Connection:
    link: socket.socket
    received: bytearray
    requests: int = 1


def fetch(port: int, encoded_request: bytes) -> tuple[int, bytes]:
    """Sends one request; returns the status and the body of the answer."""
    answers: list[tuple[int, bytes]] = []

    def keep(status: int, body: bytes) -> bool:
        answers.append((status, body))
        return True

    rate(port, [encoded_request], keep, clients=1)
    return answers[0]


def rate(port: int, requests: Iterable[bytes], check: Check, clients: int = 8, life: int = 50) -> float:
    """Sends all requests, `life` of them over each connection; returns how many were answered per second.

    Raises `CaseFailure` at the first wrong answer.
    """
    return _Load(port, iter(requests), check, life).run(clients)


class _Load:
    """One run of `rate`."""

    def __init__(self, port: int, waiting: Iterator[bytes], check: Check, life: int) -> None:
        self._port = port
        self._waiting = waiting
        self._check = check
        self._life = life
        self._selector = selectors.DefaultSelector()

    def run(self, clients: int) -> float:
        answered = 0
        began = time.perf_counter()
        for first in itertools.islice(self._waiting, clients):
            self._open(first)
        while self._selector.get_map():
            ready = self._selector.select(DEADLINE)
            if not ready:
                raise CaseFailure(f"no answer within {DEADLINE:g} seconds")
            for key, _ in ready:
                answered += self._receive(key.data)
        return answered / (time.perf_counter() - began)

    def _open(self, first: bytes) -> None:
        link = socket.create_connection(("127.0.0.1", self._port))
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.sendall(first)
        self._selector.register(link, selectors.EVENT_READ, _Connection(link, bytearray()))

    def _receive(self, connection: _Connection) -> int:
        """Receives; returns 1 if that completes an answer, after which the next request is sent."""
        part = connection.link.recv(1 << 20)
        connection.received += part
        answer = _complete(connection.received)
        if answer is None:
            if not part:
                raise CaseFailure(f"the server closed the connection after {bytes(connection.received[:500])!r}")
            return 0
        status, body, closes = answer
        if not self._check(status, body):
            raise CaseFailure(f"wrong answer: {status} {body[:500]!r}")
        connection.received.clear()
        self._send_next(connection, closes or connection.requests >= self._life)
        return 1

    def _send_next(self, connection: _Connection, closes: bool) -> None:
        encoded_request = next(self._waiting, None)
        if encoded_request is not None and not closes:
            connection.requests += 1
            connection.link.sendall(encoded_request)
            return
        self._selector.unregister(connection.link)
        connection.link.close()
        if encoded_request is not None:
            self._open(encoded_request)


def _complete(received: bytearray) -> tuple[int, bytes, bool] | None:
    """Status, body and whether the server closes the connection, once the whole answer has arrived."""
    end = received.find(END_OF_HEAD)
    if end < 0:
        return None
    head = bytes(received[:end]).lower()
    place = head.find(LENGTH)
    length = int(head[place + len(LENGTH) :].partition(b"\r\n")[0]) if place >= 0 else 0
    start = end + len(END_OF_HEAD)
    if len(received) < start + length:
        return None
    return int(head[9:12]), bytes(received[start : start + length]), b"\nconnection: close" in head
