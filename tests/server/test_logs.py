"""Contents of the log and the metrics of a request, without secrets (docs/requests.md#confidentiality)."""

from __future__ import annotations

import re

import pytest
import requests

from tests.support.servers import PATIENCE, wait_until
from tests.support.web import Web

TOKEN = "s3cret-T0ken_of-a-message-0123456789"
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "MADEUP"]
PATHS = [
    "/u/{}",
    "/p/{}",
    "/c/{}",
    "/o/{}.gif",
    "/o/{}",
    "/inbound/sendgrid/{}",
    "/inbound/kannel/dlr/{}",
    "/inbound/kannel/{}",
    "/{}",
    "/{}/u",
    "//u/{}",
    "/u//{}",
    "/u/{}/",
    "/u/{}/extra/segments",
    "/U/{}",
    "/prefix/u/{}",
    "/v1/u/{}",
    "/v1/lists/{}",
    "/v1/lists/{}/contacts",
    "/v1/{}",
    "/docs/errors/{}",
    "/%75/{}",
    "/healthz/{}",
    "/healthz?secret={}",
    "/inbound/kannel/mo?secret={}",
]


def test_no_token_of_a_path_is_logged_or_in_the_metrics(web: Web) -> None:
    with requests.Session() as session:
        for path in PATHS:
            for method in METHODS:
                session.request(method, web.base + path.format(TOKEN), timeout=PATIENCE, allow_redirects=False)
        assert TOKEN not in session.get(f"{web.base}/metrics", timeout=PATIENCE).text
    for sent in (
        b"GET /u/%b\r\n\r\n",
        b"GET /u/%b HTTP/9.9\r\n\r\n",
        b"/u/%b\r\n\r\n",
        b"/u/%b / HTTP/1.1\r\n\r\n",
        b"get /u/%b HTTP/1.1\r\n\r\n",
        b"GET /u/%b?\x01 HTTP/1.1\r\n\r\n",
        b"GET /u/%b HTTP/1.1\r\nbad header %b\r\n\r\n",
        b"POST /u/%b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n%b\r\n",
        b"GET /u/%b HTTP/1.1\r\nExpect: %b\r\n\r\n",
        b"GET /u/%b HTTP/1.1\r\nTransfer-Encoding: %b\r\n\r\n",
        b"GET http://host/u/%b HTTP/1.1\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nX: %b\r\n\r\n",
    ):
        with web.connect() as line:
            line.ask(sent.replace(b"%b", TOKEN.encode()))
    assert requests.get(f"{web.base}/doors/broken?token={TOKEN}", timeout=PATIENCE).status_code == 503
    wait_until(lambda: "cannot answer a request" in web.output(), "the last of it is logged")
    assert TOKEN not in web.output()


def test_fixed_parts_of_a_path_and_public_ids_are_logged(web: Web) -> None:
    number = requests.get(f"{web.base}/v1/lists/12/contacts/34?email=a@b.c", timeout=PATIENCE).headers["X-Request-Id"]
    uuid = "0b1f9c1e-7d0a-4a53-9d49-0d2a1a4d6f11"
    other = requests.get(f"{web.base}/v1/transactional-sends/{uuid}", timeout=PATIENCE).headers["X-Request-Id"]
    third = requests.get(f"{web.base}/u/12", timeout=PATIENCE).headers["X-Request-Id"]
    messages = {line["request_id"]: line["message"] for line in web.lines()}
    assert messages[number] == "GET /v1/lists/12/contacts/34 401"
    assert messages[other] == f"GET /v1/transactional-sends/{uuid} 401"
    assert messages[third] == "GET /u/… 404"


def test_a_refused_request_is_logged_with_its_own_id(web: Web) -> None:
    with web.connect() as line:
        first = line.ask(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").headers["x-request-id"]
        second = line.ask(b"GET /v1/lists HTTP/1.1\r\nbad\r\n\r\n").headers["x-request-id"]
    messages = [(line["request_id"], line["message"]) for line in web.lines() if line["request_id"] in (first, second)]
    assert messages == [(first, "GET /healthz 200"), (second, "GET /v1/lists 400")]


def test_log_lines_after_a_request_do_not_carry_its_id(web: Web) -> None:
    requests.get(f"{web.base}/doors/broken", timeout=PATIENCE)
    wait_until(lambda: web.lines("app.http.server.respond"), "it is logged")
    ended = {line["request_id"] for line in web.lines()}
    assert not ended & {line["request_id"] for line in web.lines("gunicorn.error")}


@pytest.mark.parametrize(("path", "status"), [("/v1/lists", 401), ("/nowhere", 404), ("/u/token", 405)])
def test_every_answer_is_counted(web: Web, path: str, status: int) -> None:
    assert requests.delete(web.base + path, timeout=PATIENCE).status_code == status
    before = counted(web, "DELETE", status)
    requests.delete(web.base + path, timeout=PATIENCE)
    assert counted(web, "DELETE", status) == before + 1


def test_refused_requests_are_counted(web: Web, strict: Web) -> None:
    before = counted(web, "GET", 400), counted(web, "GET", 503), counted(strict, "GET", 403)
    with web.connect() as line:
        line.ask(b"GET /v1/lists HTTP/1.1\r\nbad\r\n\r\n")
    requests.get(f"{strict.base}/v1/lists", timeout=PATIENCE)
    after = counted(web, "GET", 400), counted(web, "GET", 503), counted(strict, "GET", 403)
    assert after == (before[0] + 1, before[1], before[2] + 1)


def counted(server: Web, method: str, status: int) -> float:
    """The requests of all routes with that method and status, of all processes."""
    lines = requests.get(f"{server.base}/metrics", timeout=PATIENCE).text.splitlines()
    pattern = re.compile(rf'tms_http_requests_total{{method="{method}",route="[^"]*",status="{status}"}} ')
    return sum(float(line.rpartition(" ")[2]) for line in lines if pattern.match(line))
