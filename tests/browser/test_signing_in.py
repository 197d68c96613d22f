"""Signing in and out in a browser (docs/console.md#signing-in)."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.console import TOKENS, WatchedPage


def test_the_link_that_the_start_printed_signs_an_operator_in(watched: WatchedPage) -> None:
    watched.enter("operator")
    expect(watched.page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(watched.page.get_by_role("banner")).to_contain_text("Operator")


def test_a_link_signs_in_once(watched: WatchedPage) -> None:
    link, page = watched.console.link("--operator"), watched.page
    watched.sign_in(link)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    watched.expected |= {404}
    watched.open(link)
    page.get_by_role("button", name="Sign in to the console").click()
    expect(page.get_by_text("This link was already used")).to_be_visible()


def test_a_key_signs_in_and_its_level_decides_what_is_seen(watched: WatchedPage) -> None:
    page = watched.page
    for level, sees_addresses in (("standard", True), ("report", False)):
        watched.sign_in_with(TOKENS[level])
        expect(page.get_by_role("heading", level=1)).to_have_text("Acme")
        watched.go("Messages")
        expect(page.get_by_role("table")).to_be_visible()
        assert ("ann@example.com" in page.content()) is sees_addresses
        page.get_by_role("button", name="Sign out").click()


def test_a_wrong_key_is_refused_in_words(watched: WatchedPage) -> None:
    watched.sign_in_with("tms_wrong")
    expect(watched.page.get_by_role("alert")).to_be_visible()
    expect(watched.page.get_by_label("API key")).to_be_visible()


def test_a_page_that_was_asked_for_follows_signing_in(watched: WatchedPage) -> None:
    page = watched.page
    watched.open("/console/messages?state=bounced")
    page.get_by_label("API key").fill(TOKENS["standard"])
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{watched.console.base}/console/messages?state=bounced")
