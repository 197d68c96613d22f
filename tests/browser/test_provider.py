"""Signing in by OpenID Connect in a browser, from another site and back (docs/sign-in.md#the-way)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Page, expect

from tests.support.launched import PATIENT, LaunchedService
from tests.support.provider import Provider, provider
from tests.support.servers import short_folder


@pytest.fixture(scope="module")
def staff() -> Iterator[tuple[LaunchedService, Provider]]:
    """A service on 127.0.0.1 with a provider on localhost, which browsers take for another site."""
    with ExitStack() as stack:
        made = stack.enter_context(provider("localhost"))
        made.people = {
            "ann": {"name": "Ann Lee", "groups": ["admins"]},
            "bob": {"name": "Bob", "groups": ["all", "shop"]},
            "eve": {"groups": []},
        }
        folder = stack.enter_context(short_folder())
        roles = made.settings("admins=operator,all=reader,shop=manager:Acme")
        service = LaunchedService(folder, (sys.executable, "-m", "app.launcher"), **PATIENT, **roles, SEED="")
        stack.callback(service.clear)
        service.start()
        yield service, made


@pytest.fixture
def said(page: Page) -> Iterator[list[str]]:
    """What the browser complains about, which is nothing but answers that say no."""
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield complaints
    assert [text for text in complaints if "status of 40" not in text] == []


@pytest.mark.usefixtures("said")
def test_a_person_comes_from_the_wanted_page_over_the_provider_back_to_it(
    page: Page, staff: tuple[LaunchedService, Provider]
) -> None:
    service, _ = staff
    page.goto(f"{service.base}/console/audit")
    page.get_by_role("button", name="Sign in with Staff").click()
    page.get_by_role("link", name="ann").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Audit log")
    expect(page).to_have_url(f"{service.base}/console/audit")
    expect(page.get_by_role("banner")).to_contain_text("Ann Lee")
    expect(page.get_by_role("table")).to_contain_text("Ann Lee (person")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


@pytest.mark.usefixtures("said")
def test_a_person_with_several_roles_chooses_one(page: Page, staff: tuple[LaunchedService, Provider]) -> None:
    service, _ = staff
    page.goto(f"{service.base}/console")
    page.get_by_role("button", name="Sign in with Staff").click()
    page.get_by_role("link", name="bob").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Acme")
    page.get_by_role("link", name="Bob").click()
    page.get_by_role("button", name="Reader of all accounts").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


@pytest.mark.usefixtures("said")
def test_who_has_no_role_reads_why(page: Page, staff: tuple[LaunchedService, Provider]) -> None:
    service, _ = staff
    page.goto(f"{service.base}/console")
    page.get_by_role("button", name="Sign in with Staff").click()
    page.get_by_role("link", name="eve").click()
    expect(page.get_by_role("alert")).to_have_text("Staff names no role for you in this service.")
