"""What people do with the console, by the names and roles that a screen reader says (docs/console.md)."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.console import BUSY, GONE, REFUSAL, Console, WatchedPage
from tests.browser.looks import faults_of
from tests.support.servers import wait_until


@pytest.fixture
def signed_in(watched: WatchedPage) -> WatchedPage:
    """A page of the console whose user is signed in with a key of the level `standard`."""
    watched.enter("standard")
    return watched


def test_a_message_is_followed_live_from_acceptance_to_its_click(signed_in: WatchedPage) -> None:
    console, page, address = signed_in.console, signed_in.page, "mei@example.com"
    uuid = console.send(address)
    signed_in.open(f"/console/messages/{uuid}")
    state, timeline = page.locator(".title .state"), page.get_by_role("list").filter(has_text="accepted")
    expect(state).to_have_text("delivered", timeout=30_000)
    page.evaluate("window.stayed = true")
    console.click(address)
    expect(timeline).to_contain_text("clicked", timeout=60_000)
    assert page.evaluate("window.stayed"), "the page was loaded anew"


def test_a_blind_reader_finds_why_a_message_failed(signed_in: WatchedPage) -> None:
    page = signed_in.page
    signed_in.go("Messages")
    page.get_by_label("Address, subject, group, stored message or uuid").fill(GONE)
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=GONE).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(GONE)
    expect(page.get_by_role("region", name="What happened to it")).to_contain_text("nobody of that name lives here")


def test_the_frame_with_a_mail_runs_nothing_and_its_links_do_nothing(signed_in: WatchedPage) -> None:
    console, page = signed_in.console, signed_in.page
    script = "<script>document.body.textContent = 'It ran'; top.location = '/console'</script>"
    uuid = console.send(
        "frame@example.com", body_html=f'<p>Hello <a href="https://acme.example/">there</a></p>{script}'
    )
    signed_in.open(f"/console/messages/{uuid}/content")
    link = page.frame_locator("iframe.mail").get_by_role("link", name="there")
    link.click()
    expect(link).to_be_visible()
    assert page.url.endswith(f"/console/messages/{uuid}/content")
    assert len(page.context.pages) == 1
    assert signed_in.faults, "the browser says that it has kept a script from running"
    assert [fault for fault in signed_in.faults if "Blocked" not in fault] == []
    signed_in.faults.clear()


def test_a_blind_reader_sends_a_message_and_finds_why_it_failed(signed_in: WatchedPage) -> None:
    page, address = signed_in.page, "moved@customers.example"
    signed_in.console.relay.reply(address, REFUSAL)
    signed_in.go("Content")
    page.get_by_role("link", name="Welcome", exact=True).click()
    page.get_by_label("List, by name or id").fill("Customers")
    page.get_by_label("Email address of a contact or of anybody else").fill(address)
    page.get_by_role("button", name="Send a test").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(address)
    outcome = page.get_by_role("region", name="What happened to it")
    expect(outcome).to_contain_text("nobody of that name lives here", timeout=30_000)


def test_all_that_a_search_shows_is_retried_cancelled_and_retried_again(signed_in: WatchedPage) -> None:
    console, page, address = signed_in.console, signed_in.page, "again@customers.example"
    console.relay.reply(address, REFUSAL)
    uuid = console.send(address, group_name="Tried again")
    wait_until(lambda: console.state(uuid) == "bounced", "it is refused")
    signed_in.open(f"/console/messages/{uuid}")
    page.get_by_role("button", name="Unblock address").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Unblock {address}?")
    page.get_by_role("button", name="Unblock address").click()
    expect(page.get_by_role("status")).to_have_text("The address was unblocked.")
    signed_in.open(f"/console/messages?email={address}")
    page.get_by_role("row", name=address).get_by_role("link", name="Tried again").click()
    page.get_by_role("link", name="Show its messages").click()
    expect(page.get_by_text("Only messages of the group “Tried again”.")).to_be_visible()
    page.get_by_label("State").select_option("bounced")
    page.get_by_role("button", name="Search").click()
    for is_cancelled in (True, False):
        page.get_by_role("button", name="Retry all matching messages").click()
        expect(page.get_by_role("row", name=address)).to_contain_text("retried")
        assert faults_of(signed_in, page.url) == []
        page.get_by_role("button", name="Retry 1 message").click()
        outcome = page.get_by_role("region", name="Progress")
        expect(outcome).to_contain_text("This action starts in")
        if is_cancelled:
            page.get_by_role("button", name="Cancel action").click()
            expect(outcome).to_contain_text("The action was cancelled before it started. Nothing was changed.")
            assert console.state(uuid) == "bounced"
            page.get_by_role("link", name="state=bounced").click()
    page.evaluate("window.stayed = true")
    expect(outcome).to_contain_text("The action is complete.", timeout=90_000)
    assert page.evaluate("window.stayed"), "the page was loaded anew"
    assert faults_of(signed_in, "a bulk action at its end") == []
    signed_in.open("/console/bulk-actions")
    expect(page.get_by_role("row").filter(has_text="state=bounced").first).to_be_visible()
    assert faults_of(signed_in, "bulk actions") == []
    wait_until(lambda: console.state(uuid) == "delivered", "it is sent")


def test_what_a_restore_holds_is_released_by_an_operator(watched: WatchedPage) -> None:
    """The message is held as a restore holds it: by the row of its queue entry."""
    console, page, address = watched.console, watched.page, "held@customers.example"
    console.relay.reply(address, "451 4.7.1 Try again later")
    uuid = console.send(address, group_name="Held")
    wait_until(lambda: "deferred" in console.command("sends", "explain", uuid), "it waits for its next try")
    console.hold(uuid)
    watched.enter("operator")
    watched.open("/console/holds")
    if page.get_by_role("heading", level=1).inner_text() != "Held messages":
        page.get_by_role("link", name="Demo").click()
    page.get_by_label("State in the backup").select_option("queued")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("row", name=address)).to_contain_text("queued")
    assert faults_of(watched, "held messages") == []
    page.get_by_role("button", name="Release or drop all matching messages").click()
    expect(page.get_by_role("row", name=address)).to_contain_text("sent")
    assert faults_of(watched, "the preview of held messages") == []
    page.get_by_role("button", name="Release 1 message").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Release 1 message")
    expect(page.get_by_role("region", name="Progress")).to_contain_text("The action is complete.", timeout=90_000)
    wait_until(lambda: console.state(uuid) == "delivered", "it is sent")


def test_a_blocked_address_is_unblocked_and_sent_to_again_in_place(signed_in: WatchedPage) -> None:
    console, page = signed_in.console, signed_in.page
    uuid = console.send("xena@example.com")
    wait_until(lambda: console.state(uuid) == "failed", "it is refused")
    signed_in.open(f"/console/messages/{uuid}")
    page.get_by_role("button", name="Unblock address").click()
    page.get_by_role("button", name="Go back").click()
    page.get_by_role("button", name="Unblock address").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Unblock xena@example.com?")
    page.get_by_role("button", name="Unblock address").click()
    page.get_by_role("button", name="Retry").click()
    wait_until(lambda: console.state(uuid) == "delivered", "it is sent")
    expect(page.locator(".title .state")).to_have_text("delivered", timeout=30_000)


def test_keys_lead_to_pages_and_to_the_search(signed_in: WatchedPage) -> None:
    page = signed_in.page
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.type("gm")
    expect(page.get_by_role("heading", level=1)).to_have_text("Messages")
    page.keyboard.press("/")
    page.keyboard.type("goomg")
    expect(page.get_by_label("Address, subject, group, stored message or uuid")).to_have_value("goomg")
    page.get_by_label("Address, subject, group, stored message or uuid").blur()
    page.keyboard.type("go")
    expect(page.get_by_role("heading", level=1)).to_have_text("Acme")


def test_the_first_stop_of_the_keyboard_skips_to_the_content(signed_in: WatchedPage) -> None:
    page = signed_in.page
    signed_in.open("/console/messages")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()


def test_times_are_in_the_zone_of_the_reader(browser: Browser, console: Console) -> None:
    times_by_zone = {}
    for zone in ("UTC", "Pacific/Kiritimati"):
        context = browser.new_context(timezone_id=zone, locale="en-AU")
        watched = WatchedPage(context.new_page(), console)
        context.add_cookies([console.session("standard")])
        watched.open(f"/console/messages?email={BUSY}")
        moment = watched.page.locator("tbody time").first
        times_by_zone[zone] = moment.inner_text(), moment.get_attribute("title")
        context.close()
    assert times_by_zone["UTC"][0] != times_by_zone["Pacific/Kiritimati"][0]
    assert times_by_zone["UTC"][1] == times_by_zone["Pacific/Kiritimati"][1]


def test_everything_works_without_scripts(browser: Browser, console: Console) -> None:
    context = browser.new_context(java_script_enabled=False)
    watched = WatchedPage(context.new_page(), console)
    page = watched.page
    context.add_cookies([console.new_session("standard")])
    watched.open("/console")
    watched.go("Messages")
    page.get_by_label("State").select_option("bounced")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=GONE).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(GONE)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert watched.faults == []
    context.close()


def test_a_stored_message_is_written_with_a_live_preview_and_tested(watched: WatchedPage) -> None:
    console, page = watched.console, watched.page
    watched.sign_in(console.link())
    watched.open("/console/stored-messages")
    watched.unfold("Create a stored message")
    page.get_by_label("Name", exact=True).fill("Written in a browser")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Written in a browser")
    for label, text in (
        *(("Subject", "Hello %%first_name%%"), ("Sender name", "Acme")),
        *(("Sender address", "hello@acme.example"), ("HTML body", "<h1>Hi %%first_name**you%%</h1>")),
    ):
        page.get_by_label(label, exact=True).fill(text)
    preview, frame = page.get_by_role("region", name="Preview", exact=True), page.frame_locator("iframe")
    expect(preview).to_contain_text("Subject, line 1: first_name has no value")
    expect(frame.get_by_role("heading")).to_have_text("Hi you")
    page.get_by_label("Wildcard values").fill('{"first_name": "Ann"}')
    expect(preview).to_contain_text("Hello Ann")
    expect(frame.get_by_role("heading")).to_have_text("Hi Ann")
    page.get_by_label("Phone width").check()
    expect(page.locator("iframe")).to_have_css("width", "376px")
    page.get_by_label("Dark mode").check()
    expect(page.locator("iframe")).to_have_css("color-scheme", "dark")
    page.get_by_role("button", name="Save").click()
    page.get_by_label("List, by name or id").fill("1")
    page.get_by_label("Email address").fill("ann@example.com")
    page.get_by_label("Wildcard values").fill('{"first_name": "Ann"}')
    page.get_by_role("button", name="Send a test").click()
    expect(page.locator(".title .state")).to_have_text("delivered", timeout=30_000)


def test_a_version_of_a_stored_message_is_compared_and_written_back(watched: WatchedPage) -> None:
    console, page = watched.console, watched.page
    watched.sign_in(console.link())
    watched.open("/console/stored-messages")
    watched.unfold("Create a stored message")
    page.get_by_label("Name", exact=True).fill("Written twice")
    page.get_by_role("button", name="Create").click()
    for text in ("<p>one</p>\n<p>two</p>", "<p>one</p>\n<p>three</p>"):
        page.get_by_label("HTML body", exact=True).fill(text)
        page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="History").click()
    page.get_by_role("row").nth(1).get_by_role("link").click()
    changed = page.get_by_role("region", name="HTML body", exact=True)
    expect(changed.get_by_role("deletion")).to_have_text("− removed: <p>two</p>")
    expect(changed.get_by_role("insertion")).to_have_text("+ added: <p>three</p>")
    assert faults_of(watched, "a comparison") == []
    page.get_by_role("link", name="History").click()
    page.get_by_role("link", name="2", exact=True).click()
    page.get_by_label("Compare with version").select_option("3")
    page.get_by_role("button", name="Compare").click()
    expect(changed.get_by_role("insertion")).to_have_text("+ added: <p>two</p>")
    page.get_by_role("button", name="Restore this version").click()
    expect(page.get_by_label("HTML body", exact=True)).to_have_value("<p>one</p>\n<p>two</p>")


def test_the_records_of_a_new_domain_are_copied(watched: WatchedPage) -> None:
    console, page = watched.console, watched.page
    watched.sign_in(console.link())
    page.keyboard.type("gd")
    watched.unfold("Add a domain")
    page.get_by_label("Domain", exact=True).fill("copied.example")
    page.get_by_role("button", name="Add domain").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("copied.example")
    copy = page.get_by_role("button", name="Copy the value of record 1")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copy.click()
    expect(copy).to_have_text("Copied")
    assert str(page.evaluate("navigator.clipboard.readText()")).startswith("v=spf1 ")
    page.get_by_role("button", name="Delete domain").click()
    page.get_by_role("button", name="Delete domain").click()
    expect(page.get_by_role("region", name="Sending domains")).not_to_contain_text("copied.example")
