"""What operators, and people of an account, set up in the console, by the names and roles that a screen reader says
(docs/console-contents.md#accounts, docs/console-contents.md#keys-of-the-api, docs/console-messages.md#queues)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import requests
from playwright.sync_api import expect

from tests.browser.console import Console, WatchedPage
from tests.browser.looks import faults_of
from tests.support.servers import PATIENCE


@pytest.fixture
def transport(console: Console) -> Iterator[str]:
    """A named transport, which no message goes over."""
    name = "second-relay"
    console.command("transports", "create", name, "--type", "email", "--url", console.relay.url("?tls=none"))
    yield name
    console.command("transports", "delete", name)


@pytest.fixture
def announcements(console: Console) -> Iterator[int]:
    """The id of a list that no other test sends to."""
    created = console.command("lists", "create", "Announcements", "--field", "Email:Email", "--json")
    yield int(json.loads(created)["id"])
    console.command("lists", "delete", "Announcements", "--yes")


def status_of(console: Console, token: str) -> int:
    """What the API answers to a key."""
    headers = {"Authorization": f"Bearer {token}"}
    return requests.get(f"{console.base}/v1/transactional-groups", headers=headers, timeout=PATIENCE).status_code


def test_a_transport_is_paused_and_goes_on(watched: WatchedPage, transport: str) -> None:
    watched.sign_in(watched.console.link("--operator"))
    page = watched.page
    watched.go("Sending")
    row = page.get_by_role("region", name="Relays and gateways").last.get_by_role("row").filter(has_text=transport)
    expect(row).to_contain_text("in use")
    row.get_by_role("button", name=f"Disable {transport}").click()
    page.get_by_role("button", name="Disable transport").click()
    expect(row).to_contain_text("disabled")
    row.get_by_role("button", name=f"Enable {transport}").click()
    expect(row).to_contain_text("in use")
    page.get_by_text("Pause sending").click()
    assert faults_of(watched, "the form by which operators pause") == []


def test_a_list_is_paused_and_its_message_waits_until_somebody_goes_on(
    watched: WatchedPage, announcements: int
) -> None:
    console, page = watched.console, watched.page
    watched.sign_in(console.link())
    watched.go("Sending")
    page.get_by_text("Pause sending").click()
    page.get_by_label("What to pause").select_option("Messages to a list")
    page.get_by_label("Domain, or name or id of the list").fill("Announcements")
    page.get_by_label("Reason, shown to other users").fill("wrong prices")
    page.get_by_role("button", name="Pause", exact=True).click()
    row = page.get_by_role("region", name="What is paused").get_by_role("row").filter(has_text="Announcements")
    expect(row).to_contain_text("wrong prices")
    page.get_by_text("Pause sending").click()
    assert faults_of(watched, "a pause and the form for another") == []

    watched.open(f"/console/messages/{console.send('paul@example.com', list_id=announcements)}")
    state, outcome = page.locator(".title .state"), page.get_by_role("region", name="What happened to it")
    expect(state).to_have_text("paused", timeout=30_000)
    expect(outcome).to_contain_text("(wrong prices): messages wait until it is resumed.")
    queues = page.context.new_page()
    queues.goto(f"{console.base}/console/queues")
    queues.get_by_role("button", name="Resume the list Announcements").click()
    queues.get_by_role("button", name="Resume", exact=True).click()
    expect(state).to_have_text("delivered", timeout=30_000)
    expect(outcome).not_to_contain_text("wrong prices")


def test_a_setting_of_an_account_is_changed_and_a_faulty_one_refused_at_its_field(watched: WatchedPage) -> None:
    watched.sign_in(watched.console.link("--operator"))
    watched.expected |= {422}
    page = watched.page
    watched.go("Settings")
    page.get_by_role("link", name="Acme", exact=True).click()
    colour, name = page.get_by_label("Brand colour"), page.get_by_label("Brand name")
    name.fill("Acme of the browser")
    colour.fill("a warm red")
    page.get_by_role("button", name="Save").click()
    expect(colour).to_have_attribute("aria-invalid", "true")
    expect(colour).to_have_accessible_description(re.compile("is not a colour such as #0a66c2"))
    expect(name).to_have_value("Acme of the browser")
    colour.fill("#aa0000")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.reload()
    expect(colour).to_have_value("#aa0000")
    expect(name).to_have_value("Acme of the browser")


def test_a_key_is_shown_once_rotated_and_revoked(watched: WatchedPage) -> None:
    watched.sign_in(watched.console.link())
    console, page = watched.console, watched.page
    watched.go("Developers", "Keys")
    watched.unfold("Create a key")
    page.get_by_label("Name", exact=True).fill("shop")
    page.get_by_label("Level").select_option("report")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The key shop")
    first = page.get_by_role("main").locator("code").inner_text()
    assert status_of(console, first) == 200
    page.get_by_role("link", name="Continue to the keys").click()
    row = page.get_by_role("row").filter(has_text="shop").first  # the newest; old secrets are below
    expect(row).to_contain_text("valid")
    assert first not in page.content()

    row.get_by_label("End the old token").select_option("0")
    row.get_by_role("button", name="Rotate shop").click()
    page.get_by_role("button", name="Rotate key").click()
    second = page.get_by_role("main").locator("code").inner_text()
    assert (status_of(console, first), status_of(console, second)) == (401, 200)
    page.get_by_role("link", name="Continue to the keys").click()
    row.get_by_role("button", name="Revoke shop").click()
    expect(page.get_by_role("main")).to_contain_text("A use in the last minute may not be recorded yet.")
    page.get_by_role("button", name="Revoke key").click()
    expect(page.get_by_role("status")).to_have_text("shop was revoked. Requests with this key are refused.")
    expect(row).to_contain_text("revoked")
    assert status_of(console, second) == 401
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status")).to_have_text("shop was restored. Requests with this key are accepted.")
    expect(row).to_contain_text("valid")
    assert status_of(console, second) == 200
    assert faults_of(watched, "what was done") == []


def test_a_sender_of_text_messages_is_approved_and_withdrawn(watched: WatchedPage) -> None:
    watched.sign_in(watched.console.link("--operator"))
    page = watched.page
    watched.expected |= {422}
    watched.go("Sending", "Domains")
    watched.unfold("Approve a sender for text messages")
    page.get_by_label("Number in international format").fill("A name that is too long")
    page.get_by_label("Kind").select_option("alphanumeric")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("alert")).to_be_visible()
    watched.unfold("Approve a sender for text messages")
    page.get_by_label("Number in international format").fill("BROWSED")
    page.get_by_role("button", name="Approve").click()
    senders = page.get_by_role("region", name="Senders by number or name")
    expect(senders).to_contain_text("BROWSED")
    page.get_by_role("button", name="Withdraw BROWSED").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Withdraw BROWSED?")
    page.get_by_role("button", name="Withdraw BROWSED").click()
    expect(page.get_by_role("status")).to_have_text("The approval was withdrawn.")
    expect(senders).not_to_contain_text("BROWSED")
