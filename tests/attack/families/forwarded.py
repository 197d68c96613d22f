"""An attacker says that it is somebody else, somewhere else, by headers that only a trusted proxy may set."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.attack.party import ALLOWED, FLOODING, RATE, WALLED, token_of
from tests.attack.stage import SENDS, Stage
from tests.attack.tally import Case, case
from tests.support.servers import wait_until

CLIENT_HEADERS = (
    *("X-Forwarded-For", "X_Forwarded_For", "X-Real-IP", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP", "Via"),
    *("X-Cluster-Client-IP", "X-Originating-IP", "X-Remote-IP", "X-Remote-Addr", "Remote-Addr", "REMOTE_ADDR"),
)
HOSTS = ("Host", "X-Forwarded-Host", "X_Forwarded_Host", "X-Host", "X-Forwarded-Server", "X-Original-Host")
OTHERS = {"X-Forwarded-Prefix": "/evil", "X-Original-URL": "/evil", "X-Rewrite-URL": "/evil", "X-Forwarded-Port": "666"}
POISON = "evil.example"
PUBLIC = "203.0.113.9"
"""The address that the proxy in front sees."""


def attack(on: Stage) -> Iterator[Case]:
    """All of it, from a client without a proxy and from one behind it."""
    yield from networks(on)
    yield from hosts(on)
    if on.strict:
        yield from schemes(on)
    else:
        yield from limits(on)


def networks(on: Stage) -> Iterator[Case]:
    """An account that only its own network may use."""
    token = token_of(WALLED, "standard")
    tried: list[dict[str, str]] = [{name: ALLOWED} for name in CLIENT_HEADERS]
    tried += [{"Forwarded": text} for text in (f"for={ALLOWED}", f'for="{ALLOWED}:1"', f"for={ALLOWED};proto=https")]
    tried += [{"X-Forwarded-For": text} for text in (f"{ALLOWED}, {PUBLIC}", f"{ALLOWED},{PUBLIC}", f"{ALLOWED}, x")]
    for headers in tried:
        if on.strict:
            seen = headers.get("X-Forwarded-For", "")
            sent = {**headers, "X-Forwarded-For": f"{seen}, {PUBLIC}" if seen else PUBLIC}
        else:
            sent = headers
        answer = on.ask("GET", "/v1", token, headers=sent)
        yield case("allowed networks", answer.status_code == 403, f"{sent}: {answer.text}")
    if on.strict:
        answer = on.ask("GET", "/v1", token, headers={"X-Forwarded-For": f"{PUBLIC}, {ALLOWED}"})
        assert answer.status_code == 200, "the account must be open to its own network"


def limits(on: Stage) -> Iterator[Case]:
    """Requests beyond the limit of the key, each from another address as its headers say."""
    token = token_of(FLOODING, "standard")
    numbers = itertools.count(1)
    for name in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "User-Agent", "Host"):
        statuses = [
            on.ask("GET", "/v1", token, headers={name: f"192.0.2.{next(numbers) % 250}"}).status_code
            for _ in range(2 * RATE + 2)
        ]
        # A window may end meanwhile.
        yield case("rate limit", 429 in statuses, f"{name}: none of {len(statuses)} requests was refused")


def hosts(on: Stage) -> Iterator[Case]:
    """Links in mails and pages lead to the service, whatever host the request names."""
    before = len(on.relay.mails)
    sent = 0
    for headers in ({name: POISON} for name in HOSTS), ([OTHERS | {"Host": f"127.0.0.1:{on.service.port}"}]):
        for header in headers:
            html = '<p><a href="https://att4ck3r.example/">x</a> %%unsubscribe_link%%</p>'
            body = on.attacker.send(group_name="hosts", body_html=html)
            answer = on.ask("POST", SENDS, on.attacker.token, body=body, headers=header)
            sent += answer.status_code == 202
            yield case("hosts", POISON not in answer.text + str(answer.headers), f"{header}: {answer.text}")
            for path in ("/docs/openapi.json", "/docs", "/", "/u/x", "/c/x", "/v1//lists", "/v1/lists/?limit=1"):
                page = on.ask("GET", path, on.attacker.token, headers=header)
                text = page.text + str(page.headers)
                held = POISON not in text and 'href="/evil' not in text
                yield case("hosts", held, f"{path} with {header}: {page.headers} {page.text[:200]}")
    on.await_rest()
    wait_until(lambda: len(on.relay.mails) >= before + sent, "the mails have come")
    for mail in on.relay.mails[before:]:
        yield case("links of mails", POISON.encode() not in mail.content and b"/evil" not in mail.content, repr(mail))


def schemes(on: Stage) -> Iterator[Case]:
    """Requests that came in plain http to the proxy."""
    spoofs = (
        *({"X-Forwarded-Proto": text} for text in ("http", "https, http", "", "on", "httpss")),
        *(
            {"X-Forwarded-Proto": "http", name: "https"}
            for name in ("X_Forwarded_Proto", "X-Forwarded-Scheme", "X-Scheme")
        ),
        *({"X-Forwarded-Proto": "http", name: "on"} for name in ("X-Forwarded-Ssl", "Front-End-Https")),
        {"X-Forwarded-Proto": "http", "Forwarded": "proto=https"},
    )
    for headers in spoofs:
        answer = on.ask("GET", "/v1", on.attacker.token, headers=headers)
        held = answer.status_code in (400, 403)
        yield case("plain http", held, f"{headers}: {answer.status_code}")
