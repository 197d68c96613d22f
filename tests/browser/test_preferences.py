"""The preferences page in a browser, from the link of a mail (docs/preferences.md)."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from tests.browser.console import Console, WatchedPage
from tests.browser.looks import faults_of
from tests.support.servers import wait_until

LINK = re.compile(rb"Choose: https?://[^/\s]+(/p/[\w-]+)")


def preferences_link(console: Console, address: str) -> str:
    """The path of the link in a mail to a contact of a list that is offered."""
    console.command("lists", "update", "Customers", "--offered", "--offered-name", "News & offers")
    console.send(address, body_html=None, body_text="Choose: %%preferences_link%%", subject="Preferences")
    mails = console.relay.mails
    wait_until(lambda: any(LINK.search(mail.content) for mail in mails if mail.recipients == [address]), "it arrives")
    (path,) = {match[1] for mail in mails if mail.recipients == [address] and (match := LINK.search(mail.content))}
    return path.decode()


def boxes(page: Page) -> dict[str, bool]:
    """The name of each list that can be chosen, and whether its mail is."""
    groups = page.get_by_role("group").all()
    return {group.locator("legend").inner_text(): group.get_by_label("Emails").is_checked() for group in groups}


def test_a_person_chooses_among_the_lists(watched: WatchedPage) -> None:
    """One off and on again, then all; each page is accessible, in both schemes and on a telephone."""
    console, page = watched.console, watched.page
    description = ("--offered-description", "Where to meet us.")
    console.command("lists", "create", "Events", "--field", "Email:Email", "--offered", *description)
    path = preferences_link(console, "chooser@customers.example")
    watched.open(path)
    faults = faults_of(watched, "the page")
    assert boxes(page) == {"News & offers": True, "Events": False}
    page.get_by_role("group", name="News & offers").get_by_label("Emails").uncheck()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_be_visible()
    faults += faults_of(watched, "the saved page")
    watched.open(path)
    assert boxes(page) == {"News & offers": False, "Events": False}
    for button, state in (("All emails", True), ("No emails", False)):
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("status")).to_be_visible()
        assert boxes(page) == {"News & offers": state, "Events": state}
    assert faults == []


def test_the_page_speaks_the_language_of_its_reader(watched: WatchedPage, browser: Browser) -> None:
    path = preferences_link(watched.console, "leserin@customers.example")
    page = browser.new_page(locale="de-DE")
    page.goto(watched.console.base + path)
    assert page.locator("html").get_attribute("lang") == "de"
    page.close()
