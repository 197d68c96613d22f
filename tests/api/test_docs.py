"""Pages about the API, which require no key (docs/errors.md, docs/openapi.md#reference)."""

from __future__ import annotations

import re

import pytest

from app.error_help import HELP
from app.errors import CATALOGUE
from tests.support.browser import words
from tests.support.cases import each
from tests.support.client import Client, not_found

TYPES = sorted({code.type for code in CATALOGUE.values()})


@each("type_", TYPES)
def test_each_type_has_a_page_with_an_anchor_for_each_of_its_codes(anon: Client, type_: str) -> None:
    page = anon.get(f"/docs/errors/{type_}")
    assert page.status_code == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    for code in CATALOGUE.values():
        assert (f'id="{code.code}"' in page.text) is (code.type == type_)


def test_a_page_explains_each_code_and_gives_the_text_for_users(anon: Client) -> None:
    for type_ in TYPES:
        text = words(anon.get(f"/docs/errors/{type_}"))
        for code in CATALOGUE.values():
            if code.type == type_:
                for said in (*HELP[code.code], code.message):
                    assert " ".join(said.replace("`", " ").split()) in text, code.code


def test_one_page_links_to_all_types(anon: Client) -> None:
    page = anon.get("/docs/errors").text
    assert [type_ for type_ in TYPES if f'href="/docs/errors/{type_}"' not in page] == []


def test_an_unknown_type_is_not_found(anon: Client) -> None:
    not_found(anon.get("/docs/errors/nonsense"))


def test_a_page_never_repeats_the_path(anon: Client) -> None:
    assert "<script>" not in anon.get("/docs/errors/<script>alert(1)</script>").text


# ---------------------------------------------------------------------------------------------- reference


@pytest.mark.parametrize("path", ["/docs", "/docs/"])
def test_the_reference_loads_scripts_and_styles_of_this_service_alone(anon: Client, path: str) -> None:
    page = anon.get(path)
    assert (page.status_code, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert loaded
    for target in loaded:
        assert anon.get(target).status_code == 200, target
    rules = dict(rule.strip().split(" ", 1) for rule in page.headers["Content-Security-Policy"].split(";"))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == "'self'"
    assert not re.search(r"<script>|<style|\son\w+=|javascript:|https?://", page.text)


def test_assets_are_cached_and_typed(anon: Client) -> None:
    for name, type_ in (("reference.js", "text/javascript"), ("swagger-ui.css", "text/css")):
        answer = anon.get(f"/docs/assets/{name}")
        assert (answer.mimetype, answer.headers["Cache-Control"]) == (type_, "public, max-age=3600")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        again = anon.get(f"/docs/assets/{name}", headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status_code, again.data) == (304, b"")


def test_the_console_asks_no_other_host(anon: Client) -> None:
    script = anon.get("/docs/assets/reference.js").text
    assert "validatorUrl: null" in script
    assert "window.location.origin" in script
    assert "http" not in script


@each("name", ["index.html", "swagger-ui.js", "..%2f..%2fpyproject.toml", "VERSION"])
def test_other_files_are_not_served(anon: Client, name: str) -> None:
    not_found(anon.get(f"/docs/assets/{name}"))


def test_the_root_of_the_api_links_to_its_description(api: Client, anon: Client) -> None:
    link = api.get("/v1/").headers["Link"]
    relations = dict(re.findall(r'<([^>]+)>; rel="([^"]+)"', link))
    assert relations == {"/docs/openapi.json": "service-desc", "/docs": "service-doc"}
    assert [anon.get(path).status_code for path in relations] == [200, 200]
