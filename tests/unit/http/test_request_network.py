"""The watch over the requests of tests hears what it is there for."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from flask import Flask

from app.network.lookup import look_up
from tests.support.cases import each
from tests.support.request_network import watched_requests


def connects() -> None:
    with contextlib.suppress(OSError), socket.socket() as connection:
        connection.settimeout(0)
        connection.connect(("127.0.0.1", 9))


def sends_a_datagram() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as connection:
        connection.sendto(b"", ("127.0.0.1", 9))


def looks_up_in_a_thread() -> None:
    with contextlib.suppress(OSError):
        look_up("hooks.invalid", 5)


def starts_a_thread() -> None:
    thread = threading.Thread(target=connects)
    thread.start()
    thread.join()


@each("acts", [connects, sends_a_datagram, looks_up_in_a_thread, starts_a_thread])
def test_what_a_request_asks_of_the_network_is_heard(app: Flask, acts: Callable[[], None]) -> None:
    with watched_requests() as watch:
        acts()
        assert watch.noted == [], "that was no request"
        with watch.request(app):
            acts()
    assert len(watch.noted) == 1
