"""Requests that the server itself refuses get an ordinary error body, and their clients receive it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import socket
import subprocess

import pytest
import requests

from tests.support.servers import PATIENCE
from tests.support.web import Answer, Web

OPEN = "POST /doors/what-came HTTP/1.1\r\nHost: localhost\r\n"
HOST = b"Host: localhost\r\n\r\n"


def check_refused(answer: Answer, detail: str = "", method: str = "GET") -> None:
    """Checks the error body of the service, after which the connection ends."""
    body = answer.json()
    assert answer.status == 400
    assert (body["status"], body["type"], body["code"]) == (400, "invalid_request", "invalid_request")
    assert (body["method"], body["id"]) == (method, answer.headers["x-request-id"])
    assert detail in str(body["developer_message"])
    assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    assert answer.headers["connection"] == "close"


# ---------------------------------------------------------------------------------------------- the header

MALFORMED = {
    "a field of more than 8 KiB": (b"GET /v1/lists HTTP/1.1\r\nX: " + b"x" * 8190 + b"\r\n\r\n", "8,190 bytes"),
    "more fields than 100": (b"GET /v1/lists HTTP/1.1\r\n" + b"X: x\r\n" * 101 + b"\r\n", "100 fields"),
    "a header without an end": (b"GET /v1/lists HTTP/1.1\r\n" + b"X: x\r\n" * 200_000, "100 fields"),
    "a line of more than 256 KiB": (b"GET /v1/lists?" + b"x" * 262_144 + b" HTTP/1.1\r\n" + HOST, "262,144 bytes"),
    "a line without an end": (b"GET /v1/lists?" + b"x" * 400_000, "262,144 bytes"),
    "a space in the query": (b"GET /v1/lists?name=a b HTTP/1.1\r\n" + HOST, "%20"),
    "another protocol": (b"GET /v1/lists HTTP/2.0\r\n" + HOST, "HTTP/1.1"),
    "no protocol": (b"GET /v1/lists\r\n" + HOST, "HTTP/1.1"),
    "a control character": (b"GET /v1/lists?a=\x01 HTTP/1.1\r\n" + HOST, "percent-encoded"),
    "lines without CR": (b"GET /v1/lists HTTP/1.1\nHost: localhost\n\n", ""),
    "a field without a name": (b"GET /v1/lists HTTP/1.1\r\n: x\r\n\r\n", "field"),
    "a folded field": (b"GET /v1/lists HTTP/1.1\r\nX: x\r\n y\r\n\r\n", "field"),
    "two hosts": (b"GET /v1/lists HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "field"),
    "an unknown expectation": (b"GET /v1/lists HTTP/1.1\r\nHost: a\r\nExpect: magic\r\n\r\n", "100-continue"),
    "an unknown coding": (b"GET /v1/lists HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n", "chunked"),
    "a compressed transfer": (b"GET /v1/lists HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "chunked"),
    "two lengths": (b"GET /v1/lists HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "length"),
    "an invalid length": (b"GET /v1/lists HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n", "length"),
    "a length with a sign": (b"GET /v1/lists HTTP/1.1\r\nContent-Length: +5\r\n\r\n", "length"),
    "a length of 5,000 digits": (b"GET /v1/lists HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", "length"),
    "a length and chunks": (
        b"GET /v1/lists HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "length",
    ),
    "malformed chunks": (b"GET /v1/lists HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "length"),
    "a chunk without its end": (b"GET /v1/lists HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", "length"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_request_gets_the_error_body_and_the_next_client_is_answered(web: Web, what: str) -> None:
    sent, detail = MALFORMED[what]
    with web.connect() as line:
        line.send(sent)
        answer = line.answer()
        check_refused(answer, detail)
        assert line.is_ended()
    assert answer.json()["_links"]["self"] == {"href": "/v1/lists"}  # type: ignore[index]
    assert requests.get(f"{web.base}/healthz", timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize(("line", "method"), [("get /v1/lists HTTP/1.1", "get"), ("A /v1/lists HTTP/1.1", "A")])
def test_an_unusual_method_is_named_as_it_was_sent(web: Web, line: str, method: str) -> None:
    with web.connect() as link:
        check_refused(link.ask(f"{line}\r\n".encode() + HOST), "method", method)


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01\xfc\x03\x03\r\n\r\n", b"\r\n\r\nhello\r\n\r\n", b"\xff" * 300_000]
)
def test_bytes_that_are_not_http_are_answered(web: Web, garbage: bytes) -> None:
    with web.connect() as link:
        link.send(garbage)
        answer = link.answer()
        assert (answer.status, answer.json()["type"]) == (400, "invalid_request")


def test_a_field_of_8_kib_and_a_line_of_256_kib_are_accepted(web: Web) -> None:
    target = b"/doors/what-came?name=".ljust(262_144 - len("POST  HTTP/1.1"), b"x")
    with web.connect() as line:
        answer = line.ask(b"POST " + target + b" HTTP/1.1\r\nX: " + b"x" * 8185 + b"\r\n" + HOST)
    assert (answer.status, len(str(answer.json()["query"]))) == (200, 262_144 - len("POST /doors/what-came? HTTP/1.1"))


@pytest.mark.parametrize("name", ["Über", "名前", "😀", "%C3%9Cber"])
def test_a_query_may_contain_unescaped_utf8(web: Web, name: str) -> None:
    with web.connect() as line:
        came = line.ask(f"POST /doors/what-came?name={name} HTTP/1.1\r\n".encode() + HOST).json()
    assert came["names"] == ["Über" if "%" in name else name]


def test_a_line_of_256_kib_may_contain_unescaped_utf8(web: Web) -> None:
    with web.connect() as line:
        came = line.ask(f"POST /doors/what-came?name={'ü' * 130_000} HTTP/1.1\r\n".encode() + HOST).json()
    assert came["names"] == ["ü" * 130_000]


# ---------------------------------------------------------------------------------------------- the body


def digest(body: bytes) -> dict[str, object]:
    """What `what-came` returns for a body."""
    return {"length": len(body), "sha256": hashlib.sha256(body).hexdigest()}


@pytest.mark.parametrize("size", [0, 1, 70_000, 300_000, 5_000_000])
def test_a_body_arrives_as_it_was_sent_by_length_and_in_chunks(web: Web, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    with requests.Session() as session:
        for data in (body, iter([body[:100], body[100:]]) if size > 100 else iter([body] if body else [])):
            came = session.post(f"{web.base}/doors/what-came", data=data, timeout=PATIENCE).json()
            assert {name: came[name] for name in ("length", "sha256")} == digest(body)


def test_pipelined_requests_are_answered_in_order(web: Web) -> None:
    first = (OPEN + "Content-Length: 3\r\n\r\n").encode() + b"abc"
    two = (OPEN + "Transfer-Encoding: chunked\r\n\r\n").encode() + b"4;x=y\r\nabcd\r\n1\r\ne\r\n0\r\nT: t\r\n\r\n"
    with web.connect() as line:
        line.send((first + two + b"\r\n") * 50)
        assert [line.answer().json()["length"] for _ in range(100)] == [3, 5] * 50


def test_a_client_that_expects_100_continue_gets_it_before_it_sends_the_body(web: Web) -> None:
    with web.connect() as line:
        line.send((OPEN + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n").encode())
        assert line.link.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert line.ask(b"12345").json()["length"] == 5


def test_a_client_that_expects_100_continue_is_refused_at_once_if_its_body_is_too_large(web: Web) -> None:
    with web.connect() as line:
        answer = line.ask(
            f"POST /v1/lists HTTP/1.1\r\nContent-Length: {10**12}\r\nExpect: 100-continue\r\n\r\n".encode()
        )
    assert (answer.status, answer.headers["connection"]) == (401, "close")


def test_the_error_about_a_too_large_body_names_the_limit(web: Web) -> None:
    with web.connect() as line:
        answer = line.ask((OPEN + "Content-Length: 33554433\r\n\r\n").encode())
    check_refused(answer, "33,554,432 bytes", "POST")


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/transactional-sends", 401),
        ("POST", "/v2/lists", 400),
        ("POST", "/nowhere", 404),
        ("PUT", "/docs/errors", 405),
        ("POST", "/doors/what-came", 400),
    ],
)
def test_a_client_with_too_large_a_body_gets_the_answer_and_keeps_its_session(
    web: Web, method: str, path: str, status: int, chunked: bool
) -> None:
    body = b"x" * 40_000_000
    pieces = (body[start : start + 1_000_000] for start in range(0, len(body), 1_000_000))
    with requests.Session() as session:
        answer = session.request(method, web.base + path, data=pieces if chunked else body, timeout=PATIENCE)
        assert answer.status_code == status
        assert answer.headers["Connection"] == "close"
        assert session.get(f"{web.base}/healthz", timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize(("path", "status"), [("/v1/transactional-sends", 401), ("/nowhere", 404)])
def test_a_client_refused_after_a_large_body_keeps_its_connection(web: Web, path: str, status: int) -> None:
    with web.connect() as line:
        answer = line.ask(f"POST {path} HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n".encode() + b"x" * 2_000_000)
        assert (answer.status, answer.headers["connection"]) == (status, "keep-alive")
        assert line.ask(b"GET /healthz HTTP/1.1\r\n" + HOST).status == 200


def test_missing_https_is_reported_after_a_large_body(strict: Web) -> None:
    answer = requests.post(f"{strict.base}/v1/lists", data=b"x" * 3_000_000, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["type"]) == (403, "ssl_required")


NODE = """
const [base, size] = process.argv.slice(1);
const body = Buffer.alloc(Number(size), 120);
(async () => {
  for (let n = 0; n < 5; n++) {
    const refused = await fetch(base + "/v1/transactional-sends", { method: "POST", body });
    const problem = await refused.json();
    const next = await fetch(base + "/healthz");
    console.log(JSON.stringify([refused.status, problem.type, next.status]));
    await next.text();
  }
})().catch((error) => { console.log(JSON.stringify(String(error.cause || error))); });
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
@pytest.mark.parametrize("size", [5_000_000, 40_000_000])
def test_fetch_of_node_gets_the_answer_and_continues(web: Web, size: int) -> None:
    done = subprocess.run(
        ["node", "-e", NODE, "--", web.base, str(size)], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[401, "api_key_missing", 200]] * 5


def test_the_rest_of_a_refused_request_is_read_so_that_the_client_gets_the_answer(web: Web) -> None:
    with web.connect() as line:
        line.send(b"POST /v1/lists HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        for _ in range(200):
            line.send(b"x" * 65536)
        check_refused(line.answer(), "length", "POST")
        line.link.shutdown(socket.SHUT_WR)
        assert line.is_ended()


def test_an_answer_that_cannot_be_sent_is_reported_with_an_id(web: Web) -> None:
    answer = requests.get(f"{web.base}/doors/broken", timeout=PATIENCE)
    assert (answer.status_code, answer.json()["type"]) == (503, "service_unavailable")
    assert answer.json()["id"] == answer.headers["X-Request-Id"]
    assert int(answer.headers["Retry-After"]) > 0
