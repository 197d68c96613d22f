"""Forwarded headers of trusted proxies, in all their forms (docs/proxy.md#behind-a-proxy)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask

from app.settings import Settings
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.client import Client, check_error
from tests.support.tenants import Tenant, new_tenant


@pytest.fixture(scope="module")
def behind(settings: Settings) -> Iterator[Flask]:
    """An application behind one proxy, which requires https."""
    with app_with(settings, trusted_proxies=1, require_https=True) as application:
        yield application


@pytest.fixture(scope="module")
def restricted(app: Flask) -> Tenant:
    """An account that allows two addresses."""
    return new_tenant(app, allowed_networks=["192.0.2.7", "2001:db8::7"])


@each("scheme", ["https", "HTTPS", "Https", " https "])
@each(
    "client",
    [
        "192.0.2.7",
        "192.0.2.7:5678",
        "203.0.113.9, 192.0.2.7:5678",
        "2001:db8::7",
        "2001:DB8::7",
        "[2001:db8::7]",
        "[2001:db8::7]:5678",
        '"[2001:db8::7]:5678"',
        "::ffff:192.0.2.7",
        "[::ffff:192.0.2.7]:5678",
        " 192.0.2.7 ",
    ],
)
def test_an_address_and_a_scheme_are_read_in_all_forms(
    behind: Flask, restricted: Tenant, client: str, scheme: str
) -> None:
    headers = {"X-Forwarded-For": client, "X-Forwarded-Proto": scheme}
    assert Client(behind, restricted.tokens["report"]).get("/v1", headers=headers).status_code == 200


@each(
    "client",
    [
        "192.0.2.8:5678",
        "[2001:db8::8]:5678",
        "192.0.2.7, unknown",
        "unknown",
        "_hidden:1",
        ":::",
        "[",
        "[]",
        "[]:1",
        "[192.0.2.7",
        "192.0.2.7:",
        "192.0.2.7:x",
        "192.0.2.7:1:2",
        "192.0.2",
        '"',
        ",,,",
        ":" * 8000,
        "[" * 8000,
        "\xff",
    ],
)
def test_a_malformed_address_matches_no_network(behind: Flask, restricted: Tenant, client: str) -> None:
    headers = {"X-Forwarded-For": client, "X-Forwarded-Proto": "https"}
    answer = Client(behind, restricted.tokens["report"]).get("/v1", headers=headers)
    check_error(answer, 403, "ip_restricted")


@each("scheme", ["http", "", "httpss", "on", "wss", "https://", "\xff", ","])
def test_any_scheme_but_https_is_plain_http(behind: Flask, restricted: Tenant, scheme: str) -> None:
    headers = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": scheme}
    answer = Client(behind, restricted.tokens["report"]).get("/v1", headers=headers)
    check_error(answer, 403, "ssl_required")


@each("host", ["api.example.com", "a b", "[", "[::1", ":::", "a:b:c", "\xff", "x" * 8000, "/", "@"])
@each("name", ["Host", "X-Forwarded-Host"])
def test_a_malformed_host_is_answered(behind: Flask, restricted: Tenant, name: str, host: str) -> None:
    headers = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https", name: host}
    answer = Client(behind, restricted.tokens["report"]).get("/v1", headers=headers)
    assert answer.status_code in (200, 400), answer.text
    if answer.status_code == 400:
        check_error(answer, 400, "invalid_request")
