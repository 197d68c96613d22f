"""An attacker sends requests that two programs could read differently: lengths, chunks, methods and paths in forms that
a proxy may let pass; and requests that a foreign page could make a browser send."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.attack.families.isolation import items
from tests.attack.stage import Stage
from tests.attack.tally import Case, case
from tests.support.web import Line

POST = b"POST /v1/lists HTTP/1.1\r\nHost: x\r\n"
SECOND = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
END = b"0\r\n\r\n"
SMUGGLED = {
    "length and chunks": POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n" + END + SECOND,
    "chunks and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + END + SECOND,
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 34\r\n\r\n" + SECOND,
    "a list of lengths": POST + b"Content-Length: 0, 34\r\n\r\n" + SECOND,
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n" + END + SECOND,
    "a space before the name": POST + b" Transfer-Encoding: chunked\r\n\r\n" + END + SECOND,
    "a folded field": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + END + SECOND,
    "an unknown coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n" + END + SECOND,
    "another coding last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + END + SECOND,
    "two codings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + END + SECOND,
    "a control character": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + END + SECOND,
    "NUL in a name": POST + b"Transfer-Encoding\x00: chunked\r\n\r\n" + END + SECOND,
    "a quoted coding": POST + b'Transfer-Encoding: "chunked"\r\n\r\n' + END + SECOND,
    "chunks of HTTP/1.0": b"POST /v1/lists HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + END + SECOND,
    "LF alone": POST + b"X: y\nTransfer-Encoding: chunked\r\n\r\n" + END + SECOND,
    "CR alone": POST + b"X: y\rContent-Length: 34\r\n\r\n" + SECOND,
    **{
        f"the length {length.decode()}": POST + b"Content-Length: " + length + b"\r\n\r\n" + SECOND
        for length in (b"+0", b"-1", b"0x0", b"0 34", b"0_0", b"1e1", b"\xc2\xb9")
    },
    **{
        f"the chunk size {size!r}": POST + b"Transfer-Encoding: chunked\r\n\r\n" + size + b"\r\n" + END + SECOND
        for size in (b"0x0", b"-1", b"+0", b"0_0", b" 0", b"g", b"", b"fffffffffffffffff", b"0\n", b"\x000")
    },
}
"""Each is one request or none; what follows must not be answered as a second one."""
OVERRIDES = ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X_HTTP_Method_Override")
METHODS = ("TRACE", "CONNECT", "TRACK", "PROPFIND", "PUT", "DEBUG", "get", "GETX")
PATHS = (
    *(
        "//v1/lists",
        "/v1//lists",
        "/%76%31/lists",
        "/v1%2flists",
        "/v1%2Flists",
        "/V1/lists",
        "/v1/Lists",
        "/v1/./lists",
    ),
    *("/docs/../v1/lists", "/docs/%2e%2e/v1/lists", "/healthz/../v1/lists", "/healthz/%2e%2e/v1/lists", "/v1/lists;x"),
    *("/v1/lists%00", "/v1/lists.", "/v1/lists%20", "/v1/lists%09", "/v1\\lists", "/v1/lists%3f", "/healthz/v1/lists"),
    *("/v1/lists/1/../../lists", "/v1/lists/%31", "/v1/lists/+1", "/v1/lists/1.0", "/v1/lists/01", "/v1/lists/１"),
    *("/u/../v1/lists", "/u/%2e%2e%2fv1%2flists", "/docs/%2e%2e/%2e%2e/etc/passwd", "/docs/errors/..%2f..%2fapp"),
    *(
        "/docs/..%c0%af..%c0%afetc/passwd",
        "/docs/....//....//etc/passwd",
        "/v1/lists/%2e",
        "/.%2e/v1/lists",
        "/v1/%252e",
    ),
    *(
        "/v0/lists",
        "/v1.0/lists",
        "/v01/lists",
        "/v2/lists",
        "/v１/lists",
        "/v1%0d%0aX-Injected:%20yes",
        "/.git/config",
    ),
    *("/.env", "/server-status", "/debug", "/static/../wsgi.py", "/wsgi.py", "/admin"),
)
FOREIGN = {"Origin": "https://evil.example", "Referer": "https://evil.example/", "Cookie": "session=1"}


def attack(on: Stage) -> Iterator[Case]:
    """All of it."""
    yield from smuggled(on)
    yield from methods(on)
    yield from paths(on)
    yield from foreign_pages(on)


def smuggled(on: Stage) -> Iterator[Case]:
    """One request that another program might read as two."""
    for name, sent in SMUGGLED.items():
        with Line(on.service.port) as line:
            line.send(sent)
            received = bytearray()
            line.link.settimeout(60)
            while part := _receive(line):
                received += part
        count = len(re.findall(rb"HTTP/1\.[01] ", received))
        held = count == 1 and received[9:12] == b"400" and b'"status":"ok"' not in received
        yield case("smuggled requests", held, f"{name}: {bytes(received[:300])!r}")


def _receive(line: Line) -> bytes:
    try:
        return line.link.recv(65536)
    except OSError:
        return b""


def methods(on: Stage) -> Iterator[Case]:
    """Methods that no route has, and headers that would change one."""
    contact = f"/v1/lists/{on.attacker.ids['list_id']}/contacts/{on.attacker.ids['contact_id']}"
    for method in METHODS:
        with Line(on.service.port) as line:
            head = (
                f"{method} {contact} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {on.attacker.token}\r\nX-Echo: me\r\n"
            )
            answer = line.ask(f"{head}Content-Length: 0\r\n\r\n".encode())
        held = answer.status in (400, 405, 501) and b"X-Echo" not in answer.body
        yield case("methods", held, f"{method}: {answer.status}")
    for name in OVERRIDES:
        on.ask("GET", contact, on.attacker.token, headers={name: "DELETE"})
        on.ask("GET", contact, on.attacker.token, query={"_method": "DELETE"})
        still = on.ask("GET", contact, on.attacker.token)
        yield case("methods", still.status_code == 200, f"{name} deleted a contact")


def paths(on: Stage) -> Iterator[Case]:
    """Paths that a proxy may take for others: none shows anything without a key, and none avoids the scope of a key."""
    for path in PATHS:
        for token in (None, on.attacker.tokens["report"]):
            key = f"Authorization: Bearer {token}\r\n" if token else ""
            with Line(on.service.port) as line:
                answer = line.ask(f"GET {path} HTTP/1.1\r\nHost: x\r\n{key}\r\n".encode())
            held = 400 <= answer.status < 500 and b"root:" not in answer.body and "x-injected" not in answer.headers
            yield case("paths", held, f"{path} with {'a key' if token else 'no key'}: {answer.status}")


def foreign_pages(on: Stage) -> Iterator[Case]:
    """What a page of another site can make a browser send, and what it may read."""
    for operation in on.operations:
        path = operation.path.format(**on.attacker.ids)
        for method in ("OPTIONS", operation.method):
            if method not in ("OPTIONS", "GET"):
                continue
            answer = on.ask(method, path, on.attacker.token_for(path), headers=FOREIGN)
            allowed = [name for name in answer.headers if name.lower().startswith("access-control-")]
            yield case("foreign pages", not allowed and not answer.cookies, f"{method} {path}: {allowed}")
        if operation.method != "POST":
            continue
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            body = on.attacker.send(group_name="foreign pages") if "sends" in path else {}
            headers = {**FOREIGN, "Content-Type": kind}
            without = on.ask("POST", path, None, body=body, headers=headers)
            yield case("foreign pages", without.status_code == 401, f"{kind} without a key: {without.text}")
            # A page cannot send a body without a type: with a key, that is a request of the integrator.
            if operation.texts and kind:
                answer = on.ask("POST", path, on.attacker.token_for(path), body=body, headers=headers)
                held = answer.status_code in (400, 415) and not items(answer)
                yield case("foreign pages", held, f"{kind} to {path}: {answer.text}")
