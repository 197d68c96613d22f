"""The suppression list from end to end: what the API adds is not sent to, what people do shows there, and what it takes
off is sent to again (docs/suppressions.md)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy import select

from app.db.models import Recipient
from app.inbound.email.receive import receive_email
from app.sends.delivery.drain import drain
from app.services import Services
from app.tracking.tokens import return_path
from tests.support.client import SENDS, Client, conflict, items
from tests.support.mail_reports import complaint
from tests.support.tenants import Tenant
from tests.unit.transports.mailserver import MailServer

PATH = "/v1/suppressions"
ANN = "ann@example.com"


class Story:
    """An account whose application sends to one person."""

    def __init__(self, tenant: Tenant, worker: Services, mail_server: MailServer) -> None:
        self.tenant, self.worker, self.mail_server = tenant, worker, mail_server
        self.api, self.list_id = tenant.api, tenant.add_list("Customers")

    def send(self) -> str:
        """Sends a message; returns its uuid."""
        body = {
            **{"type": "email", "list_id": self.list_id, "group_name": "Story", "subject": "Hi"},
            **{"from_address": f"hello@{self.tenant.domain}", "from_name": "Acme", "body_text": "Hi %%unsubscribe%%"},
        }
        answer = self.api.post(SENDS, {**body, "recipients": [{"email": ANN}]})
        assert answer.status_code == 202, answer.text
        drain(self.worker)
        uuid: str = answer.get_json()["_embedded"]["recipients"][0]["uuid"]
        return uuid

    def outcome(self, uuid: str) -> tuple[str, str | None]:
        """State and reason of a message."""
        recipient = self.api.get(f"{SENDS}/{uuid}").get_json()
        return recipient["state"], recipient["reason"]

    def listed(self, query: str = "") -> list[tuple[Any, ...]]:
        """State, list, reason and message of each suppression."""
        page = items(self.api.get(f"{PATH}?{query}"), "suppressions")
        return [(item["state"], item["list_id"], item["reason"], item["uuid"]) for item in page]

    def complain(self, uuid: str) -> None:
        """The reader reports the message as spam."""
        with self.worker.database.read() as session:
            recipient_id = session.scalars(select(Recipient.id).where(Recipient.uuid == uuid)).one()
        to = return_path(self.worker.settings, recipient_id, f"hello@{self.tenant.domain}")
        receive_email(self.worker, complaint(to, ANN), [to], patience=0)


@pytest.fixture
def story(tenant: Tenant, worker: Services, mail_server: MailServer) -> Story:
    return Story(tenant, worker, mail_server)


def test_what_is_blocked_by_the_api_is_not_sent_to_until_it_is_taken_off(story: Story) -> None:
    assert story.api.post(PATH, {"state": "blocked", "email": ANN}).status_code == 201
    assert story.outcome(story.send()) == ("failed", "blocked")
    assert story.api.delete(f"{PATH}?email={ANN}").status_code == 204
    assert story.outcome(story.send()) == ("delivered", None)
    assert len(story.mail_server.mails) == 1


def test_what_is_unsubscribed_by_the_api_is_not_sent_to(story: Story) -> None:
    off = {"state": "unsubscribed", "email": ANN, "list_id": story.list_id}
    assert story.api.post(PATH, {"suppressions": [off, {**off, "email": "ben@example.com"}]}).status_code == 204
    assert story.outcome(story.send()) == ("failed", "unsubscribed")


def test_a_complaint_is_taken_off_only_if_that_is_confirmed(story: Story) -> None:
    uuid = story.send()
    story.complain(uuid)
    assert story.listed() == [("blocked", None, "complaint", uuid), ("unsubscribed", story.list_id, None, uuid)]
    assert story.outcome(story.send())[0] == "failed"
    for query in (f"email={ANN}", f"email={ANN}&confirm=unsubscribe", f"email={ANN}&state=blocked"):
        conflict(story.api.delete(f"{PATH}?{query}"), code="conflict", field="confirm")
    assert len(story.listed()) == 2
    assert story.api.delete(f"{PATH}?email={ANN}&confirm=complaint,unsubscribe").status_code == 204
    assert story.listed() == []
    assert story.outcome(story.send()) == ("delivered", None)


def test_an_unsubscribe_link_shows_by_which_message(story: Story, anon: Client) -> None:
    uuid = story.send()
    (mail,) = story.mail_server.mails
    (link,) = set(re.findall(rb"https?://[^/\s]+(/u/[\w-]+)", mail.content))
    assert anon.request("POST", link.decode()).status_code == 200
    assert story.listed(f"uuid={uuid}") == [("unsubscribed", story.list_id, None, uuid)]
    (item,) = items(story.api.get(f"{PATH}?uuid={uuid}"), "suppressions")
    assert story.api.get(item["_links"]["recipient"]["href"]).get_json()["uuid"] == uuid
    assert story.api.get(item["_links"]["list"]["href"]).get_json()["id"] == story.list_id
    assert story.outcome(story.send()) == ("failed", "unsubscribed")
