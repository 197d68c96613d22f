"""A poller reports each readiness to one of the threads that wait, and once."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.http.server import connections
from app.http.server.connections import Poller
from tests.support.servers import PATIENCE

KINDS = [name for name in ("EpollPoller", "SelectorPoller") if hasattr(connections, name)]


@pytest.fixture(params=KINDS)
def shared(request: pytest.FixtureRequest) -> Poller:
    """Each kind, whatever this system uses."""
    made: Poller = getattr(connections, request.param)()
    return made


@pytest.fixture
def pair(shared: Poller) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client, and the server's side of it, which is added to the poller."""
    client, server = socket.socketpair()
    server.setblocking(False)
    shared.add(server.fileno())
    with client, server:
        yield client, server


def test_a_readable_socket_is_reported_once_until_it_is_armed_again(
    shared: Poller, pair: tuple[socket.socket, socket.socket]
) -> None:
    client, server = pair
    client.send(b"one")
    assert shared.poll() == server.fileno()
    client.send(b"two")
    shared.wake()
    assert shared.poll() is None  # and not the socket
    for _ in range(2):
        shared.arm(server.fileno(), writing=False)  # arming twice is arming once
    assert shared.poll() == server.fileno()
    shared.wake()
    assert shared.poll() is None


def test_of_many_threads_one_gets_the_report(shared: Poller, pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    with ThreadPoolExecutor(4) as threads:
        polling = [threads.submit(shared.poll) for _ in range(4)]
        client.send(b"one")
        for _ in range(3):
            shared.wake()
        # Wakes may be merged, so each thread that is left is woken again.
        while sum(future.done() for future in polling) < 4:
            shared.wake()
        reports = [future.result(PATIENCE) for future in polling]
    assert sorted(reports, key=str) == [server.fileno(), None, None, None]


def test_a_socket_may_be_armed_and_removed_while_another_thread_polls(
    shared: Poller, pair: tuple[socket.socket, socket.socket]
) -> None:
    _, server = pair
    other_client, other = socket.socketpair()
    reported: list[int | None] = []
    polling = threading.Thread(target=lambda: reported.append(shared.poll()))
    polling.start()
    with other_client, other:
        shared.add(other.fileno())
        shared.remove(server.fileno())
        other_client.send(b"one")
        polling.join(PATIENCE)
        assert reported == [other.fileno()]


def test_a_socket_armed_for_writing_is_reported_when_it_is_writable(
    shared: Poller, pair: tuple[socket.socket, socket.socket]
) -> None:
    client, server = pair
    client.send(b"one")
    assert shared.poll() == server.fileno()
    assert server.recv(10) == b"one"
    shared.arm(server.fileno(), writing=True)
    assert shared.poll() == server.fileno()


def test_however_often_it_is_woken_a_poller_takes_it(shared: Poller) -> None:
    for _ in range(100_000):
        shared.wake()
    assert shared.poll() is None
