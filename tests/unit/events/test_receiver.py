"""The demo receiver, and the verification code that the documentation shows."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import orjson
import pytest

from app.clock import this_second
from app.demo import receiver
from app.events.dispatch import WebhookClient
from app.events.endpoint import PostResult
from app.events.signing import signature_header
from tests.support.servers import PATIENCE, wait_until

PAGE = Path(__file__).parents[3] / "docs" / "webhooks.md"
K1, K2 = "1" * 32, "2" * 32
BODY = orjson.dumps({"events": [{"object": "contact", "event": "créé"}]})

Verify = Callable[[bytes, str, Mapping[str, str]], dict[str, Any] | None]


def signed(body: bytes, *secrets: tuple[str, str], moment: datetime | None = None) -> str:
    return signature_header(
        secrets, issuer="http://127.0.0.1:8000", webhook_id=5, batch_id="b-1", body=body, now=moment or this_second()
    )


# ---------------------------------------------------------------------------------------------- the verification


@pytest.fixture(scope="module")
def verify() -> Verify:
    """The function of the page, executed from the page."""
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(snippet, str(PAGE), "exec"), names)
    verify_function: Verify = names["verify"]
    return verify_function


def test_the_page_shows_the_function_of_the_demo_receiver() -> None:
    assert inspect.getsource(receiver.verify) in PAGE.read_text("utf-8")


def test_the_documented_function_verifies_what_the_service_signs(verify: Verify) -> None:
    claims = verify(BODY, signed(BODY, ("k1", K1)), {"k1": K1})
    assert claims is not None
    assert (claims["sub"], claims["jti"]) == ("5", "b-1")


@pytest.mark.parametrize("secrets", [{"k1": K1}, {"k2": K2}, {"k1": "another secret of 32 bytes or so", "k2": K2}])
def test_one_verified_signature_of_several_is_enough(verify: Verify, secrets: dict[str, str]) -> None:
    assert verify(BODY, signed(BODY, ("k1", K1), ("k2", K2)), secrets)


def test_the_documented_function_refuses_everything_else(verify: Verify) -> None:
    good = signed(BODY, ("k1", K1))
    assert verify(BODY + b" ", good, {"k1": K1}) is None
    assert verify(BODY, good, {"k1": K2}) is None
    assert verify(BODY, good, {"k2": K1}) is None
    assert verify(BODY, good, {}) is None
    assert verify(BODY, signed(BODY, ("k1", K1), moment=this_second() - timedelta(minutes=6)), {"k1": K1}) is None
    for header in ("", ",", "a.b.c", "null", "é", good.rpartition(".")[0] + ".", "eyJhbGciOiJub25lIn0." + good):
        assert verify(BODY, header, {"k1": K1}) is None


def test_a_token_without_signature_is_refused(verify: Verify) -> None:
    claims = jwt.decode(signed(BODY, ("k1", K1)), options={"verify_signature": False})
    assert verify(BODY, jwt.encode(claims, "", algorithm="none", headers={"kid": "k1"}), {"k1": K1}) is None


# ------------------------------------------------------------------------------------------------ the receiver


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a running demo receiver."""
    with receiver.make_server(0, K1) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/events"
        server.shutdown()


def post(url: str, body: bytes, headers: dict[str, str]) -> PostResult:
    with closing(WebhookClient()) as client:
        return client.post(1, url, body, headers, allow_private=True)


def test_it_prints_a_line_for_each_verified_event(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    moment = "2026-01-31T09:00:00Z"
    common = {"object": "recipient", "id": 1, "timestamp": moment, "email": "ann@example.com", "group_name": "Welcome"}
    events = [
        {"object": "contact", "event": "created", "id": 12, "list_id": 3, "timestamp": moment},
        {**common, "event": "sent"},
        {**common, "event": "failed", "fail_reason": "unsubscribed"},
        {**common, "event": "bounced", "bounce_reason": "no such user"},
    ]
    body = orjson.dumps({"events": events})
    assert post(url, body, {"Service-Signature": signed(body, ("any", K1))}).status == 204
    assert capsys.readouterr().out.splitlines() == [
        "verified  contact created       contact 12                      2026-01-31T09:00:00Z",
        "verified  recipient sent        ann@example.com                 2026-01-31T09:00:00Z  Welcome",
        "verified  recipient failed      ann@example.com                 2026-01-31T09:00:00Z  unsubscribed",
        "verified  recipient bounced     ann@example.com                 2026-01-31T09:00:00Z  no such user",
    ]


@pytest.mark.parametrize(
    "headers", [{}, {"Service-Signature": "a.b.c"}, {"Service-Signature": signed(b"x", ("k1", K1))}]
)
def test_it_refuses_what_is_not_signed(url: str, headers: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert post(url, BODY, headers).status == 401
    assert capsys.readouterr().out == "refused   a request without a valid signature\n"


def test_it_refuses_a_request_without_a_usable_length(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert post(url, b"", {"Content-Length": "99999999999"}).status == 400
    assert capsys.readouterr().out == "refused   a request without a usable Content-Length\n"


def test_it_reports_missing_options(capsys: pytest.CaptureFixture[str]) -> None:
    for environ in ({}, {"RECEIVER_PORT": "8001"}, {"RECEIVER_PORT": "x", "RECEIVER_SECRET": K1}):
        assert receiver.main(environ) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_it_reports_a_port_in_use(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    port = str(urlsplit(url).port)
    assert receiver.main({"RECEIVER_PORT": port, "RECEIVER_SECRET": K1}) == 1
    assert capsys.readouterr().err.startswith(f"RECEIVER_PORT={port}: cannot listen: ")
    assert receiver.main({"RECEIVER_PORT": "99999", "RECEIVER_SECRET": K1}) == 1


def test_it_runs_as_a_program_and_ends_at_once_on_a_signal() -> None:
    with receiver.make_server(0, K1) as server:
        port = server.server_address[1]
    environ = {"RECEIVER_PORT": str(port), "RECEIVER_SECRET": K1}
    command = [sys.executable, "-m", "app.demo.receiver"]
    with subprocess.Popen(command, cwd=PAGE.parents[1], env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: post(f"http://127.0.0.1:{port}/", BODY, {}).status == 401, "it listens")
            body = orjson.dumps({"events": []})
            headers = {"Service-Signature": signed(body, ("k1", K1))}
            assert post(f"http://127.0.0.1:{port}/", body, headers).status == 204
        finally:
            process.terminate()
        assert process.wait(PATIENCE) == -15
        assert process.stdout is not None
        assert process.stdout.read() == "refused   a request without a valid signature\n"
