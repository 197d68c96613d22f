"""Whole walks through the console: on a wide screen and on a telephone, in a light and a dark scheme, and without
scripts (docs/console.md)."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.console import Console, WatchedPage
from tests.browser.looks import faults_of
from tests.support.servers import wait_until

REFUSED = "554 5.7.1 Relay access denied"
DOMAINS = ("a.example", "b.example", "c.example", "d.example", "e.example")
TELEPHONE = {"width": 390, "height": 844}
PLACES: dict[str, dict[str, Any]] = {
    "wide": {},
    "telephone": {"viewport": TELEPHONE, "is_mobile": True, "has_touch": True},
    "dark": {"color_scheme": "dark"},
    "without scripts": {"java_script_enabled": False},
}


@pytest.mark.parametrize("place", PLACES)
def test_a_message_is_found_by_a_part_of_its_address_and_sent_again(
    browser: Browser, console: Console, place: str
) -> None:
    address = f"{place.replace(' ', '-')}.guest@hotel.example"
    console.relay.reply(address, "550 5.3.2 the system accepts no mail now")
    uuid = console.send(address, group_name="Bookings", subject="Your booking")
    wait_until(lambda: console.state(uuid) == "bounced", "it is refused")
    context = browser.new_context(**PLACES[place])
    context.add_cookies([console.session("standard")])
    watched = WatchedPage(context.new_page(), console)
    page = watched.page
    watched.open("/console")
    watched.go("Messages")
    page.get_by_label("Address, subject, group, stored message or uuid").fill(address[:-10].upper())
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("main")).to_contain_text("among the newest 10")
    row = page.get_by_role("row").filter(has_text=address)
    expect(row).to_contain_text("Your booking")
    expect(row).to_contain_text("server accepts no mail now")
    row.get_by_role("link", name=address).click()
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("status")).to_have_text("The message is queued again.")
    wait_until(lambda: console.state(uuid) == "delivered", "it is sent")
    assert watched.faults == []
    context.close()


def test_a_relay_that_refuses_everything_is_found_and_repaired_from_the_overview(watched: WatchedPage) -> None:
    """The operator repairs the relay itself between the two."""
    console, page = watched.console, watched.page
    addresses = [f"guest@{domain}" for domain in DOMAINS]
    console.relay.always.update(dict.fromkeys(addresses, REFUSED))
    bounced = [console.send(address, group_name="Refused") for address in addresses[:2]]
    wait_until(lambda: all(console.state(uuid) == "bounced" for uuid in bounced), "two bounce before it is noticed")
    for address in addresses[2:]:
        console.send(address, group_name="Refused")
    watched.enter("operator")
    attention = page.get_by_role("region", name="Needs attention")
    expect(attention).to_contain_text(f"with: {REFUSED}", timeout=60_000)
    expect(page.get_by_role("main")).not_to_contain_text("All is well.")
    assert faults_of(watched, "an overview with findings") == []
    for address in addresses:
        del console.relay.always[address]
    attention.get_by_role("link", name="Show the messages that bounced, to retry them").click()
    page.get_by_role("button", name="Retry all matching messages").click()
    page.get_by_role("button", name="Retry ").click()
    expect(page.get_by_role("region", name="Progress")).to_contain_text("The action is complete.", timeout=90_000)
    wait_until(lambda: all(console.state(uuid) == "delivered" for uuid in bounced), "they are sent")
    watched.open("/console")
    expect(attention.filter(has_text=REFUSED)).to_have_count(0, timeout=30_000)


def test_a_telephone_has_one_row_of_navigation_and_cards_for_rows(browser: Browser, console: Console) -> None:
    context = browser.new_context(**PLACES["telephone"])
    context.add_cookies([console.session("operator")])
    watched = WatchedPage(context.new_page(), console)
    page = watched.page
    watched.open("/console")
    bar = page.locator(".bar").bounding_box()
    assert bar is not None
    assert bar["height"] < 80
    page.get_by_role("button", name="Menu").click()
    expect(page.get_by_role("link", name="Audit log")).to_be_visible()
    watched.go("Messages", "Groups")
    row = page.get_by_role("row").filter(has_text="First steps").first
    label = row.locator("td").first.evaluate("(cell) => getComputedStyle(cell, '::before').content")
    assert label == '"Accepted"'
    assert page.evaluate("document.documentElement.scrollWidth") == TELEPHONE["width"]
    context.close()


def test_the_browser_asks_before_an_edited_form_is_left(watched: WatchedPage) -> None:
    """Not before one that is sent, nor where nothing was edited."""
    watched.sign_in(watched.console.link())
    page = watched.page
    asked: list[str] = []
    page.on("dialog", lambda dialog: asked.append(dialog.type))
    watched.open("/console/stored-messages/1")
    watched.go("Messages")
    assert asked == []
    watched.open("/console/stored-messages/1")
    page.get_by_label("Subject").press_sequentially(" and more")
    watched.go("Messages")
    expect(page.get_by_role("heading", level=1)).to_have_text("Messages")
    assert asked == ["beforeunload"]
    watched.open("/console/lists")
    watched.unfold("Create a list")
    page.get_by_label("Name", exact=True).press_sequentially("Edited")
    page.get_by_role("button", name="Create list").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Edited")
    assert asked == ["beforeunload"]


def test_everything_is_searched_from_the_bar_of_every_page(watched: WatchedPage) -> None:
    watched.enter("standard")
    page = watched.page
    page.get_by_label("Search everything").fill("custom")
    page.get_by_label("Search everything").press("Enter")
    expect(page.get_by_role("row", name="Customers list")).to_be_visible()
    assert faults_of(watched, "the search of everything") == []
    uuid = watched.console.send("searched@example.com")
    page.get_by_label("Search everything").fill(uuid)
    page.get_by_label("Search everything").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("searched@example.com")
