"""Pages about the API, which require no key (docs/errors.md)."""

from __future__ import annotations

import pytest

from app.errors import CATALOGUE
from tests.support.client import Client, not_found

TYPES = sorted({code.type for code in CATALOGUE.values()})


@pytest.mark.parametrize("type_", TYPES)
def test_each_type_has_a_page_with_an_anchor_for_each_of_its_codes(anon: Client, type_: str) -> None:
    page = anon.get(f"/docs/errors/{type_}")
    assert page.status_code == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    for code in CATALOGUE.values():
        assert (f'id="{code.code}"' in page.text) is (code.type == type_)


def test_the_pages_show_both_messages(anon: Client) -> None:
    page = anon.get("/docs/errors/not_found").text
    assert CATALOGUE["not_found"].message in page
    assert CATALOGUE["not_found"].developer_message in page


def test_one_page_links_to_all_types(anon: Client) -> None:
    page = anon.get("/docs/errors").text
    assert [type_ for type_ in TYPES if f'href="/docs/errors/{type_}"' not in page] == []


def test_an_unknown_type_is_not_found(anon: Client) -> None:
    not_found(anon.get("/docs/errors/nonsense"))


def test_a_page_never_repeats_the_path(anon: Client) -> None:
    assert "<script>" not in anon.get("/docs/errors/<script>alert(1)</script>").text
