"""Hosts of requests: under which the console answers, and under which the demo's keys work
(docs/security.md#names)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask

from app.accounts.auth import PUBLISHED_PREFIX, hash_token
from app.clock import this_second
from app.db.models import ApiKey
from app.http.console.pages import SIGN_IN
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.browser import SAME_ORIGIN, new_link
from tests.support.cases import each
from tests.support.client import Client
from tests.support.tenants import Tenant, unique

OWN = (
    *("localhost", "LOCALHOST.", "127.0.0.1:8000", "127.8.9.1", "[::1]:8000"),
    *("tms.example.com", "TMS.example.com.", "tms.example.com:444"),
    *("ops.example.com", "Ops.Example.com.:443", "10.1.2.3:8000", "[2001:db8:0::7]", "intranet"),
)
FOREIGN = (
    *("evil.example", "click.victim.example", "tms.example.com.evil.example", "eviltms.example.com", "192.0.2.1"),
    *("localhost.evil.example", "127.0.0.1.evil.example", "evil.example:8000", "[2001:db8::8]", "0.0.0.0", "x" * 300),
    *("localhost@evil.example", "evil.example@localhost", "evil.example:localhost", "[::1", "localhost..", "a,b"),
)
PAGES = ("/console", "/console/sign-in", "/console/assets/0/page.js", "/console/nothing", "/console/login/x")
CONSOLE_HOSTS = ("ops.example.com", "10.1.2.3", "2001:db8::7", "intranet")


@pytest.fixture(scope="module")
def console(settings: Settings) -> Iterator[Flask]:
    """A service under a name of its own, whose console has further ones."""
    changes = {"public_url": "https://tms.example.com", "require_https": False, "console_hosts": CONSOLE_HOSTS}
    with app_with(settings, **changes) as app:
        yield app


@each("host", OWN)
def test_the_console_answers_under_hosts_of_the_installation(console: Flask, host: str) -> None:
    answer = Client(console).request("GET", SIGN_IN, headers={"Host": host})
    assert (answer.status_code, answer.mimetype) == (200, "text/html")


@each("host", FOREIGN)
def test_under_other_hosts_there_is_no_console(console: Flask, host: str) -> None:
    """Whoever owns the DNS of a host could have its pages read by scripts of their own."""
    client = Client(console)
    nothing = client.request("GET", "/nothing")
    for path in PAGES:
        answer = client.request("GET", path, headers={"Host": host})
        assert answer.status_code == nothing.status_code == 404
        assert answer.get_json().keys() == nothing.get_json().keys()
        assert answer.get_json()["developer_message"] == nothing.get_json()["developer_message"]
        assert "Set-Cookie" not in answer.headers
        assert "tms.example.com" not in answer.text
    assert client.request("GET", "/docs", headers={"Host": "evil.example"}).status_code == 200


def test_a_link_signs_nobody_in_under_another_host_and_is_not_used_up(console: Flask, tenant: Tenant) -> None:
    path = f"/console/login/{new_link(console, tenant.id)}"
    for host, status in (("evil.example", 404), ("ops.example.com", 303)):
        answer = Client(console).request("POST", path, headers={**SAME_ORIGIN, "Host": host})
        assert answer.status_code == status


def test_a_proxy_that_is_trusted_names_the_host(settings: Settings) -> None:
    with app_with(settings, public_url="https://tms.example.com", trusted_proxies=1, require_https=False) as app:
        for forwarded, status in (("tms.example.com", 200), ("evil.example", 404)):
            headers = {"Host": "backend.internal.example", "X-Forwarded-Host": forwarded}
            assert Client(app).request("GET", SIGN_IN, headers=headers).status_code == status


@each(
    ("host", "is_served"),
    [("localhost:8000", True), ("127.0.0.1", True), ("[::1]", True), ("evil.example", False), ("192.0.2.1", False)],
)
def test_a_published_key_works_under_loopback_hosts_alone(
    app: Flask, tenant: Tenant, host: str, is_served: bool
) -> None:
    """A page of a host whose DNS leads to this machine is another site's, and everybody knows the key."""
    token = PUBLISHED_PREFIX + unique("key").ljust(40, "x")
    values = {"name": unique("demo"), "token_hint": token[:8], "access_level": "standard"}
    tenant.add(ApiKey, token_hash=hash_token(token), creation_time=this_second(), **values)
    answer = Client(app, token).request("GET", "/v1", headers={"Host": host})
    assert answer.status_code == (200 if is_served else 401)
    assert Client(app, tenant.tokens["standard"]).request("GET", "/v1", headers={"Host": host}).status_code == 200
