"""What people do with webhooks in the console, by the names and roles that a screen reader says
(docs/console-contents.md#webhooks)."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from app.clock import now
from tests.browser.console import WatchedPage
from tests.support.servers import wait_until
from tests.support.webhook_receiver import Receiver, Reply

HOST = "127.0.0.2"
"""A host other than that of the demo's own receiver."""
BROKEN = Reply(500, body=b"the queue of events is full")


def row_of(watched: WatchedPage) -> Locator:
    """The row of the webhook in the table."""
    watched.go("Developers")
    return watched.page.get_by_role("row").filter(has=watched.page.get_by_role("link", name=HOST))


def uuids_since(receiver: Receiver, hits: int) -> set[str]:
    """The messages of the events that came after so many requests."""
    return {str(event.get("uuid")) for hit in receiver.hits[hits:] for event in hit.events}


def test_a_webhook_that_fails_is_seen_mended_and_replayed(watched: WatchedPage) -> None:
    console, page, since = watched.console, watched.page, now()
    with Receiver(BROKEN, host=HOST) as receiver:
        watched.sign_in(console.link())
        watched.go("Developers")
        watched.unfold("Add a webhook")
        page.get_by_label("URL that receives the events").fill(receiver.url)
        page.get_by_role("button", name="Add webhook").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("The new secret")
        uuid = console.send("elif@example.com")

        wait_until(lambda: "failing" in row_of(watched).inner_text(), "the table says that it fails")
        row_of(watched).get_by_role("link", name=HOST).click()
        deliveries = page.get_by_role("region", name="Deliveries")
        deliveries.get_by_role("row").last.get_by_role("link").click()
        answer = page.get_by_role("region", name="Response")
        expect(answer).to_contain_text("500")
        expect(answer).to_contain_text("the queue of events is full")

        receiver.reply(200)
        wait_until(lambda: "accepting" in row_of(watched).inner_text(), "it is tried again and accepts")
        row_of(watched).get_by_role("link", name=HOST).click()
        earlier = len(receiver.hits)
        page.get_by_label("Send again all events sent since").fill(f"{since:%Y-%m-%dT%H:%M}")
        page.get_by_role("button", name="Replay").click()
        wait_until(lambda: uuid in uuids_since(receiver, earlier), "the events come again")

        wait_until(lambda: "accepting" in row_of(watched).inner_text(), "it accepts them")
        row_of(watched).get_by_role("link", name=HOST).click()
        page.get_by_role("button", name="Delete webhook").click()
        page.get_by_role("button", name="Delete webhook").click()
        expect(page.get_by_role("link", name=HOST)).to_have_count(0)
