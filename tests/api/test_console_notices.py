"""The line in which a page of the console tells what was done (docs/console.md#after-an-action)."""

from __future__ import annotations

import re

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from app.http.console.notices import COOKIE
from tests.support.browser import Browser, linked
from tests.support.tenants import Tenant

LISTS = "/console/lists"


def notices(page: TestResponse) -> list[str]:
    """The lines of a page that tell what was done."""
    return re.findall(r'<div class="notice"><p role="status">(.*?)</p>', page.text)


def create_list(browser: Browser, name: str = "Friends") -> TestResponse:
    """Creates a list; returns the redirection to its page."""
    answer = browser.post(LISTS, name=name)
    assert answer.status_code == 303, answer.text
    return answer


def test_the_next_page_says_once_what_was_done(tenant: Tenant) -> None:
    browser = linked(tenant)
    path = create_list(browser).headers["Location"]
    assert [notices(browser.get(path)) for _ in range(2)] == [["The list was created."], []]


FACES = "Age" + "\N{GRINNING FACE}" * 90


@pytest.mark.parametrize(("name", "html"), [("<b>&", "&lt;b&gt;&amp;"), (FACES, FACES)], ids=["markup", "faces"])
def test_a_name_is_shown_as_it_is(tenant: Tenant, name: str, html: str) -> None:
    browser = linked(tenant)
    path = create_list(browser).headers["Location"]
    browser.get(path)
    assert browser.post(f"{path}/fields", name=name, type="Text Field").status_code == 303
    assert notices(browser.get(path)) == [f"The field {html} was added."]


@pytest.mark.parametrize("name", ["", "x" * 300])
def test_a_refused_action_says_no_such_thing(tenant: Tenant, name: str) -> None:
    browser = linked(tenant)
    refused = browser.post(LISTS, name=name)
    assert (refused.status_code, notices(refused), notices(browser.get(LISTS))) == (422, [], [])


def test_another_session_in_the_same_browser_does_not_see_it(tenant: Tenant, other_tenant: Tenant) -> None:
    browser = linked(tenant)
    create_list(browser)
    assert browser.post("/console/sign-out").status_code == 303
    assert notices(browser.sign_in(other_tenant.tokens["standard"]).get(LISTS)) == []


@pytest.mark.parametrize("value", ["", "x", "e30" * 8, "%00"])
def test_a_planted_line_is_not_shown(tenant: Tenant, value: str) -> None:
    browser = linked(tenant)
    browser.client.set_cookie(COOKIE, value, path="/console")
    page = browser.get(LISTS)
    assert (page.status_code, notices(page)) == (200, [])


def test_the_cookie_is_for_the_console_alone(app: Flask, tenant: Tenant) -> None:
    header = next(text for text in create_list(linked(tenant)).headers.get_all("Set-Cookie") if COOKIE in text)
    assert re.fullmatch(
        rf"{COOKIE}=[\w-]+; Expires=[^;]+; Max-Age=60; HttpOnly; Path=/console; SameSite=Strict", header
    )
