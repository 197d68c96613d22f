"""An attacker lets the service hold as much as it does: answers that nobody reads, requests that do not end, and lines
that are none (docs/proxy.md#slow-clients). Meanwhile a victim is answered as fast as before, and the processes of
the API do not grow by more than they may hold."""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import requests

from tests.attack.families.floods import MEGABYTE, memory
from tests.attack.stage import ENOUGH, SENDS, Stage
from tests.attack.tally import Case, case

MOST_GROWTH = 100
"""Megabytes of all processes of the API together."""
MOST_SLOWER = 2.0
TRIES = 10
"""Measurements, of which one must be good: the machine has other work, too."""
FOREIGN = "127.0.0.2"
"""The address of the attacker, where it matters that the victim has another one."""
HELD = 64 * MEGABYTE
"""WEB_BUFFER_BYTES of the installation."""
WORKERS = 2
BODY = 1_000_000
UNREAD = {
    "a file": "/docs/assets/swagger-ui-bundle.js",
    "the description": "/docs/openapi.json",
    "a page": "{contacts}?limit=1000",
    "a table": "/console/lists/{list_id}/contacts.csv",
    "all messages": "/console/messages/all.csv",
}
CONTACTS, NOTE = 100, 10_000
EMPTY_LINES = b"\r\n" * MEGABYTE
HOLDING_SECONDS = 0.2
"""Seconds for which a part of a request has been under way before the rest follows."""


def attack(on: Stage) -> Iterator[Case]:
    """Unread answers, empty lines, and bodies that do not end."""
    session = _furnish(on)
    usual = min(_slowest(on) for _ in range(3))
    for name, path in UNREAD.items():
        before = memory(on)
        with ExitStack() as kept:
            request = _asking(on, path, session)
            links = [_sent(on, kept, request) for _ in range(150 if on.short else 800)]
            begun = sum(_has_begun(link) for link in links)
            yield case("unread answers", begun > len(links) // 2, f"{name}: only {begun} were answered")
            yield case("unread answers", _is_as_fast(on, usual), f"{name}: others wait")
            grown = memory(on) - before
            yield case("unread answers", grown < MOST_GROWTH, f"{name}: the API has grown by {grown} MB")
            yield from _victim(on, name)
    yield from _empty_lines(on)
    yield from _bodies(on)


def _furnish(on: Stage) -> str:
    """Large contacts of the attacker, and its cookie of the console."""
    contacts = f"/v1/lists/{on.attacker.ids['list_id']}/contacts"
    for number in range(CONTACTS):
        large = {"email": f"large{number}@example.org", "note": "x" * NOTE}
        made = on.ask("POST", contacts, on.attacker.token, body=large)
        assert made.status_code == 201, made.text
    form, headers = {"key": on.attacker.token}, {"Sec-Fetch-Site": "same-origin"}
    answer = requests.post(f"{on.base}/console/sign-in", form, headers=headers, allow_redirects=False, timeout=ENOUGH)
    return str(answer.headers.get("Set-Cookie", "")).partition(";")[0]


def _asking(on: Stage, path: str, cookie: str) -> bytes:
    ids = on.attacker.ids
    target = path.format(contacts=f"/v1/lists/{ids['list_id']}/contacts", list_id=ids["list_id"])
    key = f"Authorization: Bearer {on.attacker.token}\r\nCookie: {cookie}"
    return f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}\r\n\r\n".encode()


def _sent(on: Stage, kept: ExitStack, data: bytes, address: str = "127.0.0.1") -> socket.socket:
    """A connection on which something was sent, or as much of it as the service takes."""
    target = ("127.0.0.1", on.service.port)
    link = kept.enter_context(socket.create_connection(target, timeout=ENOUGH, source_address=(address, 0)))
    with suppress(OSError):
        link.sendall(data)
    return link


def _has_begun(link: socket.socket) -> bool:
    """Waits for the first byte of an answer; False if there is none."""
    with suppress(OSError):
        return link.recv(1, socket.MSG_PEEK) == b"H"
    return False


def _slowest(on: Stage) -> float:
    """Seconds that nearly all requests of the victim take at most."""
    took = []
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {on.victim.token}"
        for _ in range(100):
            began = time.perf_counter()
            assert session.get(f"{on.base}/v1", timeout=ENOUGH).status_code == 200
            took.append(time.perf_counter() - began)
    return statistics.quantiles(took, n=20)[-1]


def _is_as_fast(on: Stage, usual: float) -> bool:
    return any(_slowest(on) < MOST_SLOWER * usual for _ in range(TRIES))


def _victim(on: Stage, name: str) -> Iterator[Case]:
    for _ in range(3 if on.short else 20):
        body = on.victim.send(group_name="holding")
        key = {"Authorization": f"Bearer {on.victim.token}"}
        answer = requests.post(f"{on.base}{SENDS}", json=body, headers=key, timeout=ENOUGH)
        yield case("sends of another tenant", answer.status_code == 202, f"{name}: {answer.status_code} {answer.text}")


def _empty_lines(on: Stage) -> Iterator[Case]:
    with ExitStack() as kept:
        for _ in range(2 * WORKERS):
            link = _sent(on, kept, EMPTY_LINES)
            answer = b""
            with suppress(OSError):
                answer = link.recv(MEGABYTE, socket.MSG_WAITALL)
            yield case("empty lines", b"bytes of empty lines" in answer, f"they are taken without an end: {answer!r}")
        yield from _victim(on, "empty lines")


def _bodies(on: Stage) -> Iterator[Case]:
    """More than may be held, of an address that is not the victim's, whose own large request is under way."""
    before = memory(on)
    large = (b'{"subject": "' + b"x" * (3 * BODY)).ljust(4 * BODY)
    head = f"POST {SENDS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {on.victim.token}\r\nContent-Length: %d\r\n\r\n"
    with ExitStack() as kept:
        begun = [_sent(on, kept, (head % len(large)).encode() + large[:-1]) for _ in range(2 * WORKERS)]
        time.sleep(HOLDING_SECONDS)
        for _ in range(2 * WORKERS * HELD // BODY):
            _sent(on, kept, (head % (2 * BODY)).encode() + b"x" * BODY, FOREIGN)
        yield from _victim(on, "bodies")
        for link in begun:
            with suppress(OSError):
                link.sendall(b"}")
            yield case("bodies that do not end", _status(link) == 400, "a request of another client was refused")
        grown = memory(on) - before
        yield case("bodies that do not end", grown < MOST_GROWTH, f"the API has grown by {grown} MB")


def _status(link: socket.socket) -> int:
    """The status of the answer; 0 without one."""
    with suppress(OSError, ValueError, IndexError):
        return int(link.recv(1024).split()[1])
    return 0
