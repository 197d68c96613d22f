"""The preferences link from end to end: it is taken from a delivered mail, and what is chosen on its page decides what
is sent next (docs/preferences.md)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from sqlalchemy import select

from app.db.models import Event
from app.sends.delivery.drain import drain
from app.services import Services
from tests.support.client import SENDS, Client, items
from tests.support.contacts import ContactEvent, add_webhook, entries, find, firings
from tests.support.preferences import PreferencesPage
from tests.support.tenants import Tenant
from tests.unit.transports.mailserver import MailServer

ANN, MOBILE = "Ann@Example.com", "61411111111"
GERMAN = {"Accept-Language": "de"}


class Story:
    """An account that offers two of its three lists to Ann, who is in the first and the third."""

    def __init__(self, tenant: Tenant, worker: Services, mail_server: MailServer, anon: Client) -> None:
        self.tenant, self.worker, self.mail_server, self.anon = tenant, worker, mail_server, anon
        self.news = tenant.add_list(
            "news_2026", offered=True, offered_name="News & more", offered_description="Once a month."
        )
        self.offers = tenant.add_list("Offers", offered=True)
        self.internal = tenant.add_list("Internal")
        self.ann = tenant.new_contact(self.news, email=ANN, mobile=MOBILE)["id"]
        tenant.new_contact(self.internal, email=ANN)
        add_webhook(tenant)

    def send(self, list_id: int) -> str:
        """Sends a mail with the link to Ann; returns its uuid."""
        body = {
            **{"type": "email", "list_id": list_id, "group_name": "Story", "subject": "Hi"},
            **{"from_address": f"hello@{self.tenant.domain}", "from_name": "Acme"},
            "body_text": "Choose: %%preferences_link%%",
        }
        answer = self.tenant.api.post(SENDS, {**body, "recipients": [{"email": ANN}]})
        assert answer.status_code == 202, answer.text
        drain(self.worker)
        uuid: str = answer.get_json()["_embedded"]["recipients"][0]["uuid"]
        return uuid

    def outcome(self, list_id: int) -> tuple[str, str | None]:
        """State and reason of another mail to the list."""
        recipient = self._recipient(self.send(list_id))
        return recipient["state"], recipient["reason"]

    def link(self) -> str:
        """The path of the link in the last mail that was delivered."""
        (path,) = re.findall(rb"Choose: https?://[^/\s]+(/p/[\w-]+)", self.mail_server.mails[-1].content)
        return str(path.decode())

    def page(self, path: str) -> PreferencesPage:
        """The page as it is now."""
        return PreferencesPage.of(self.anon.get(path))

    def post(self, path: str, form: Any) -> PreferencesPage:
        """The page after the form."""
        return PreferencesPage.of(self.anon.request("POST", path, data=form))

    def steps(self, uuid: str) -> list[str]:
        """The timeline of a mail."""
        return [step["step"] for step in self._recipient(uuid)["timeline"]]

    def _recipient(self, uuid: str) -> dict[str, Any]:
        recipient: dict[str, Any] = self.tenant.api.get(f"{SENDS}/{uuid}").get_json()
        return recipient

    def events(self) -> list[ContactEvent]:
        """Event, list and contact of each event about a contact."""
        statement = select(Event.payload).where(Event.account_id == self.tenant.id).order_by(Event.id)
        with self.tenant.services.database.read() as session:
            payloads = [json.loads(text) for text in session.scalars(statement)]
        return [
            (payload["event"], payload["list_id"], payload["id"])
            for payload in payloads
            if payload["object"] == "contact"
        ]

    def unsubscribed(self) -> int:
        """What the group counts."""
        (group,) = items(self.tenant.api.get("/v1/transactional-groups"), "transactional-groups")
        count: int = group["unsubscribed"]
        return count


@pytest.fixture
def story(tenant: Tenant, worker: Services, mail_server: MailServer, anon: Client) -> Story:
    return Story(tenant, worker, mail_server, anon)


def test_who_reads_the_page_sees_what_is_offered_and_changes_nothing(story: Story) -> None:
    story.send(story.news)
    answer = story.anon.get(story.link(), headers=GERMAN)
    page = PreferencesPage.of(answer)
    assert (page.title, answer.headers["Content-Language"]) == ("Was möchten Sie erhalten?", "de")
    assert page.lists == {
        "News & more": {f"email-{story.news}": "on", f"mobile-{story.news}": "on"},
        "Offers": {f"email-{story.offers}": "off"},
    }
    assert page.buttons == ["email-off", "email-on", "mobile-off", "mobile-on"]
    assert "<p>Once a month.</p>" in answer.text
    assert f"<strong>{ANN}</strong>" in answer.text
    assert (entries(story.tenant), story.events()) == (set(), [])


def test_a_list_is_switched_off_and_on_again(story: Story) -> None:
    uuid = story.send(story.news)
    path, box = story.link(), f"email_{story.news}"
    after = story.post(path, story.page(path).changed(**{box: False}))
    assert after.lists["News & more"] == {f"email-{story.news}": "off", f"mobile-{story.news}": "on"}
    assert entries(story.tenant) == {("email", ANN.lower(), story.news)}
    (suppression,) = items(story.tenant.api.get(f"/v1/suppressions?uuid={uuid}"), "suppressions")
    assert (suppression["state"], suppression["list_id"]) == ("unsubscribed", story.news)
    assert story.events() == [("updated", story.news, story.ann)]
    assert (story.steps(uuid), story.unsubscribed()) == (["sent", "unsubscribed"], 1)
    assert story.outcome(story.news) == ("failed", "unsubscribed")
    assert story.outcome(story.internal) == ("delivered", None)

    again = story.post(path, story.page(path).changed(**{box: True}))
    assert again.lists["News & more"] == {f"email-{story.news}": "on", f"mobile-{story.news}": "on"}
    assert entries(story.tenant) == set()
    assert story.events()[1:] == [("updated", story.news, story.ann)]
    assert (story.steps(uuid), story.unsubscribed()) == (["sent", "unsubscribed", "resubscribed"], 1)
    assert story.outcome(story.news) == ("delivered", None)


def test_who_is_not_in_a_list_joins_it_by_the_address_of_the_message(story: Story) -> None:
    """The new contact has the address and nothing else, an event, and the triggers of one that a send creates."""
    uuid = story.send(story.news)
    path = story.link()
    after = story.post(path, story.page(path).changed(**{f"email_{story.offers}": True}))
    assert after.lists["Offers"] == {f"email-{story.offers}": "on"}
    (contact,) = find(story.tenant, story.offers)
    assert (contact["email"], contact["mobile"], contact["subscribed"]["email"]) == (ANN, None, True)
    assert story.events() == [("created", story.offers, contact["id"])]
    assert firings(story.tenant)[-1] == ("created", story.offers, contact["id"])
    assert (story.steps(uuid), story.unsubscribed()) == (["sent", "resubscribed"], 0)
    assert story.outcome(story.offers) == ("delivered", None)
    assert len(find(story.tenant, story.offers)) == 1

    story.post(path, {"all": "email-off"})
    assert (story.steps(uuid), story.unsubscribed()) == (["sent", "resubscribed", "unsubscribed"], 1)


def test_everything_offered_is_switched_off_and_on_again_by_channel(story: Story) -> None:
    """A list that is not offered stays as it is, and so does the other channel."""
    story.send(story.news)
    path = story.link()
    off = story.post(path, {"all": "email-off"})
    assert off.lists == {
        "News & more": {f"email-{story.news}": "off", f"mobile-{story.news}": "on"},
        "Offers": {f"email-{story.offers}": "off"},
    }
    ended = {("email", ANN.lower(), story.news), ("email", ANN.lower(), story.offers)}
    assert entries(story.tenant) == ended
    assert story.outcome(story.news) == ("failed", "unsubscribed")
    assert story.outcome(story.offers) == ("failed", "unsubscribed")
    assert story.outcome(story.internal) == ("delivered", None)
    assert story.post(path, {"all": "mobile-off"}).lists["News & more"][f"mobile-{story.news}"] == "off"
    assert entries(story.tenant) == {*ended, ("mobile", MOBILE, story.news)}

    on = story.post(path, {"all": "email-on"})
    assert on.lists == {
        "News & more": {f"email-{story.news}": "on", f"mobile-{story.news}": "off"},
        "Offers": {f"email-{story.offers}": "on"},
    }
    assert entries(story.tenant) == {("mobile", MOBILE, story.news)}
    assert story.outcome(story.news) == ("delivered", None)
    assert story.outcome(story.offers) == ("delivered", None)


def test_one_click_unsubscribing_stays_as_it_is(story: Story) -> None:
    """The button of mail programs needs no page; the page shows what it did, and a page that was open before does not
    undo it."""
    story.send(story.news)
    path, before = story.link(), story.page(story.link())
    (one_click,) = set(re.findall(rb"https?://[^/\s]+(/u/[\w-]+)", story.mail_server.mails[-1].content))
    posted = story.anon.request("POST", one_click.decode(), data={"List-Unsubscribe": "One-Click"})
    assert posted.status_code == 200
    assert entries(story.tenant) == {("email", ANN.lower(), story.news)}
    after = story.post(path, before.changed(**{f"mobile_{story.news}": False}))
    assert after.lists["News & more"] == {f"email-{story.news}": "off", f"mobile-{story.news}": "off"}
    one_click_on_preferences = story.post(path, {"List-Unsubscribe": "One-Click"})
    assert one_click_on_preferences.lists == after.lists
