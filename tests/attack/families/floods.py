"""An attacker sends as much as it can. Meanwhile a victim's sends are accepted, and the processes of the API neither
grow without bound nor end."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import requests

from tests.attack.party import FLOODING, RATE, token_of
from tests.attack.stage import SENDS, Stage
from tests.attack.tally import Case, case

MEGABYTE = 1 << 20
MOST_GROWTH = 600
"""Megabytes of all processes of the API together: what their documented bounds let them keep (WEB_BUFFER_BYTES)."""
API = r"gunicorn"


def attack(on: Stage) -> Iterator[Case]:
    """Flood after flood, and the processes at the end."""
    pids, size = on.service.pids(API), memory(on)
    yield from limited(on)
    yield from pages(on)
    for name, flood in FLOODS.items():
        with during(on, flood) as answers:
            yield from victim(on, name)
        bad = [answer for answer in answers if answer >= 500 and answer != 503]
        yield case("answers to floods", not bad, f"{name}: {bad[:5]}")
    yield from bombs(on)
    grown = memory(on) - size
    yield case("processes afterwards", on.service.pids(API) == pids, "a process of the API has ended")
    yield case("processes afterwards", grown < MOST_GROWTH, f"the API has grown by {grown} MB")


def memory(on: Stage) -> int:
    """Resident megabytes of the processes of the API, those that they share counted in each."""
    total = 0
    for pid in on.service.pids(API):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        total += pages * 4096 // MEGABYTE
    return total


def victim(on: Stage, name: str) -> Iterator[Case]:
    """What another tenant does meanwhile."""
    for _ in range(3 if on.short else 20):
        body = on.victim.send(group_name="floods")
        answer = requests.post(f"{on.base}{SENDS}", json=body, headers=_key(on.victim.token), timeout=60)
        yield case("sends of another tenant", answer.status_code == 202, f"{name}: {answer.status_code} {answer.text}")


@contextmanager
def during(on: Stage, flood: Callable[[Stage, list[int]], None]) -> Iterator[list[int]]:
    """The flood runs inside the block, and to its end after it; the statuses of its answers."""
    answers: list[int] = []
    threads = [threading.Thread(target=flood, args=(on, answers), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        for thread in threads:
            thread.join()


def _key(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def limited(on: Stage) -> Iterator[Case]:
    """Beyond the rate limit every request is refused, and says when to come again."""
    token = token_of(FLOODING, "limited")
    answers = [on.ask("GET", "/v1", token) for _ in range(3 * RATE)]
    passed = sum(answer.status_code == 200 for answer in answers)
    # A window may end meanwhile.
    yield case("rate limit", passed <= 2 * RATE, f"{passed} requests passed a limit of {RATE}")
    for answer in answers:
        held = answer.status_code == 200 or int(answer.headers.get("Retry-After", 0)) > 0
        yield case("rate limit", held, answer.text)


def pages(on: Stage) -> Iterator[Case]:
    """Pages of the console beyond the rate limit are refused, and say when to come again."""
    with requests.Session() as browser:
        form, headers = {"key": token_of(FLOODING, "report")}, {"Sec-Fetch-Site": "same-origin"}
        browser.post(f"{on.base}/console/sign-in", form, headers=headers, allow_redirects=False, timeout=60)
        answers = [browser.get(f"{on.base}/console", timeout=60) for _ in range(3 * RATE)]
    passed = [answer for answer in answers if answer.status_code == 200]
    yield case("rate limit", 0 < len(passed) <= 2 * RATE, f"{len(passed)} pages passed a limit of {RATE}")
    for answer in answers:
        held = answer in passed or (answer.status_code == 429 and int(answer.headers.get("Retry-After", 0)) > 0)
        yield case("rate limit", held, f"{answer.status_code} {answer.headers}")


def wrong_keys(on: Stage, answers: list[int]) -> None:
    """Keys that nobody has, each another one."""
    with requests.Session() as session:
        for number in range(50 if on.short else 1000):
            key = _key(f"tms_{number:043d}")
            answers.append(session.get(f"{on.base}/v1/lists", headers=key, timeout=60).status_code)


def connections(on: Stage, answers: list[int]) -> None:
    """Connections that are opened and left alone."""
    with ExitStack() as kept:
        for _ in range(50 if on.short else 400):
            link = kept.enter_context(socket.create_connection(("127.0.0.1", on.service.port), timeout=60))
            link.sendall(b"GET /v1 HTTP/1.1\r\n")
        answers.append(requests.get(f"{on.base}/healthz", timeout=60).status_code)


def large_bodies(on: Stage, answers: list[int]) -> None:
    """Bodies at the limit and beyond it, with a key and without."""
    for size in (8, 40):
        for key in ({}, _key(on.attacker.token)):
            body = b'{"type": "email", "subject": "' + b"x" * (size * MEGABYTE) + b'"}'
            headers = {**key, "Content-Type": "application/json"}
            answers.append(requests.post(f"{on.base}{SENDS}", data=body, headers=headers, timeout=60).status_code)


def tokens(on: Stage, answers: list[int]) -> None:
    """Links that nobody was sent."""
    with requests.Session() as session:
        for number in range(50 if on.short else 1000):
            path = f"/{'uco'[number % 3]}/{number:020d}"
            answers.append(session.get(on.base + path, allow_redirects=False, timeout=60).status_code)


FLOODS = {"wrong keys": wrong_keys, "connections": connections, "large bodies": large_bodies, "tokens": tokens}


def bombs(on: Stage) -> Iterator[Case]:
    """Small requests that would cost much, each refused as what it is."""
    million = 10_000 if on.short else 1_000_000
    members = b",".join(b'"k%d":0' % number for number in range(million))
    bodies = {
        "deep arrays": b"[" * 100_000,
        "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "a deep value": b'{"type":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        "many members": b"{" + members + b"}",
        "many equal members": b"{" + b",".join([b'"type":"email"'] * million) + b"}",
        "a long number": b'{"list_id":' + b"9" * 1_000_000 + b"}",
        "a large exponent": b'{"list_id":1e999999999}',
        "many recipients": b'{"type":"email","recipients":[' + b",".join([b"{}"] * 100_000) + b"]}",
        "many wildcards": b'{"type":"email","body_text":"' + b"%%a" * 300_000 + b'"}',
        "many conditionals": b'{"type":"email","body_html":"' + b"{%if a%}" * 100_000 + b'"}',
        "many tags": b'{"type":"email","body_html":"' + b"<a href='" * 100_000 + b'"}',
        "many escapes": b'{"type":"email","subject":"' + b"\\u0000" * 100_000 + b'"}',
        "white space": b"{" + b" " * 5_000_000 + b"}",
    }
    for name, body in bodies.items():
        headers = {**_key(on.attacker.token), "Content-Type": "application/json"}
        answer = requests.post(f"{on.base}{SENDS}", data=body, headers=headers, timeout=60)
        yield case("bombs", answer.status_code in (400, 422), f"{name}: {answer.status_code} {answer.text[:300]}")
        yield case("bombs", len(answer.content) < MEGABYTE, f"{name}: an answer of {len(answer.content)} bytes")
    packed = gzip.compress(b" " * (100 * MEGABYTE if not on.short else MEGABYTE))
    for coding in ("gzip", "deflate", "br", "gzip, gzip"):
        headers = {**_key(on.attacker.token), "Content-Type": "application/json", "Content-Encoding": coding}
        answer = requests.post(f"{on.base}{SENDS}", data=packed, headers=headers, timeout=60)
        yield case("bombs", answer.status_code in (400, 415), f"{coding}: {answer.status_code}")
    for name, query in {
        "parameters": "&".join(f"id:in={number}" for number in range(5_000)),
        "values": "id:in=" + ",".join(map(str, range(40_000))),
        "ranges": "id:in=" + ",".join(f"{number}.." for number in range(20_000)),
        "fields": "fields=" + ",".join(["id"] * 40_000),
    }.items():
        answer = on.ask("GET", f"/v1/lists?{query}", on.attacker.token)
        yield case("bombs", answer.status_code < 500, f"a query with many {name}: {answer.status_code}")
    yield from victim(on, "bombs")
