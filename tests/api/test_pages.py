"""Pages outside the API: security headers for browsers, and errors for people (docs/requests.md#cross-origin)."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from app.settings import Settings
from app.tracking.links import StoredLink, link_token
from app.tracking.tokens import PREFERENCES_PURPOSE, UNSUBSCRIBE_PURPOSE, recipient_token
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.client import Client

PAGES = [
    "/u/token",
    "/p/token",
    "/c/token",
    "/o/token.gif",
    "/docs/errors",
    "/docs/errors/not_found",
    "/docs/errors/nothing",
]


@each("path", [*PAGES, "/healthz", "/docs/openapi.json", "/nowhere", "/u/a/b", "/inbound/sendgrid/x"])
@each("method", ["GET", "POST", "PUT"])
def test_pages_forbid_scripts_and_referrers(anon: Client, method: str, path: str) -> None:
    headers = anon.request(method, path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    rules = dict(rule.strip().split(" ", 1) for rule in headers["Content-Security-Policy"].split(";"))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert rules["form-action"] == "'self'"
    assert set(rules) == {"default-src", "frame-ancestors", "base-uri", "form-action", "style-src"}


@each("path", ["/u/token", "/p/token", "/c/token", "/docs/errors", "/docs/errors/not_found"])
def test_the_policy_allows_the_style_of_a_page_and_no_page_has_a_script(anon: Client, path: str) -> None:
    answer = anon.get(path)
    assert answer.mimetype == "text/html"
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in answer.headers["Content-Security-Policy"]
    assert not re.search(r"<script|\son\w+=|\sstyle=|javascript:|<link|<img", answer.text)


def test_answers_of_the_api_do_not_have_these_headers(api: Client) -> None:
    assert "Content-Security-Policy" not in api.get("/v1/lists").headers


# ---------------------------------------------------------------------------------------------- errors for people


@pytest.fixture(scope="module")
def without_database(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """An application whose database cannot be opened."""
    folder: Path = tmp_path_factory.mktemp("no-database")
    with app_with(settings, database_url=f"sqlite:///{folder}") as application:
        yield application


@each(("method", "page"), [("GET", "u"), ("POST", "u"), ("GET", "p"), ("POST", "p"), ("GET", "c")])
def test_with_the_database_down_a_person_gets_a_page(
    without_database: Flask, settings: Settings, method: str, page: str
) -> None:
    tokens = {
        "u": recipient_token(settings.secret_key, UNSUBSCRIBE_PURPOSE, 7),
        "p": recipient_token(settings.secret_key, PREFERENCES_PURPOSE, 7),
        "c": link_token(settings.secret_key, StoredLink(7, 8)),
    }
    answer = Client(without_database).request(method, f"/{page}/{tokens[page]}")
    assert (answer.status_code, answer.mimetype) == (503, "text/html")
    assert "Please try again shortly." in answer.text
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.headers["X-Request-Id"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


@each(
    ("method", "path"),
    [("PUT", "/u/token"), ("GET", "/u/a/b"), ("PUT", "/p/token"), ("GET", "/p/a/b"), ("GET", "/c/"), ("GET", "/c")],
)
def test_a_damaged_link_gets_a_page(anon: Client, method: str, path: str) -> None:
    answer = anon.request(method, path)
    assert answer.status_code in (404, 405)
    assert answer.mimetype == "text/html"


# ---------------------------------------------------------------------------------------------- other origins


@each("method", ["GET", "HEAD", "OPTIONS"])
def test_the_description_allows_any_origin_and_the_api_does_not(anon: Client, api: Client, method: str) -> None:
    origin = {"Origin": "https://elsewhere.example"}
    answer = anon.request(method, "/docs/openapi.json", headers=origin)
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, "*")
    for client, path in (
        (api, "/v1/lists"),
        (api, "/v1"),
        (anon, "/v1/lists"),
        (anon, "/docs/errors"),
        (anon, "/healthz"),
    ):
        assert "Access-Control-Allow-Origin" not in client.request(method, path, headers=origin).headers
