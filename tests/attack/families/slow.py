"""An attacker holds connections by sending or reading a byte now and then (docs/proxy.md#slow-clients). Meanwhile
a victim's requests are answered."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import requests

from tests.attack.stage import ENOUGH, SENDS, Stage
from tests.attack.tally import Case, case
from tests.support.servers import wait_until

HEADER = b"POST /v1/lists HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 200
BODY = b"POST /v1/transactional-sends HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
CHUNKS = b"POST /v1/transactional-sends HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
PAGE = b"GET /docs/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 20
SLOW = {
    "headers": (b"", HEADER),
    "bodies": (BODY, b"x" * 200),
    "chunks": (CHUNKS, b"1\r\nx\r\n" * 40),
    "nothing at all": (b"", b""),
    "reading": (PAGE, b""),
}
"""What is sent at once, and what byte by byte."""
SECOND = 1.0


def attack(on: Stage) -> Iterator[Case]:
    """Each kind by itself, and at the end all connections are refused or expired."""
    count = 100 if on.short else 600
    for name, (at_once, slowly) in SLOW.items():
        with ExitStack() as kept:
            links = [_connected(on, kept) for _ in range(count)]
            over = threading.Event()
            thread = threading.Thread(target=_dribble, args=(links, at_once, slowly, over), daemon=True)
            thread.start()
            try:
                for _ in range(3 if on.short else 20):
                    body = on.victim.send(group_name="slow clients")
                    key = {"Authorization": f"Bearer {on.victim.token}"}
                    answer = requests.post(f"{on.base}{SENDS}", json=body, headers=key, timeout=60)
                    yield case("sends of another tenant", answer.status_code == 202, f"{name}: {answer.status_code}")
                if name == "headers":
                    yield case("connections that are ended", _all_end(links), f"{_ended(links)} of {len(links)}")
            finally:
                over.set()
                thread.join()


def _connected(on: Stage, kept: ExitStack) -> socket.socket:
    link = kept.enter_context(socket.create_connection(("127.0.0.1", on.service.port), timeout=60))
    link.setblocking(False)
    return link


def _dribble(links: list[socket.socket], at_once: bytes, slowly: bytes, over: threading.Event) -> None:
    for link in links:
        with suppress(OSError):
            link.send(at_once)
    at = 0
    while not over.wait(SECOND):
        for link in links if at < len(slowly) else ():
            with suppress(OSError):
                link.send(slowly[at : at + 1])
        at += 1


def _all_end(links: list[socket.socket]) -> bool:
    """Whether the server answers or closes all of them in a time that is longer than its limit for a header."""
    with suppress(AssertionError):
        wait_until(lambda: _ended(links) == len(links), "all have ended", ENOUGH)
    return _ended(links) == len(links)


def _ended(links: list[socket.socket]) -> int:
    """How many the server has answered or closed."""
    poller = select.poll()
    for link in links:
        poller.register(link, select.POLLIN)
    return len(poller.poll(0))
