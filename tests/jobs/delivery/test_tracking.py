"""Tracked mails and their links, from the request to the counts of the group (docs/tracking.md#counting)."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any

import pytest
from flask import Flask

from app.db.models import SendLink
from app.sends.delivery.drain import drain
from app.services import Services
from app.tracking.recorder import VISITS
from tests.jobs.delivery.conftest import body, parsed
from tests.support.client import Client, invalid
from tests.support.sends import SendsApi, rows_of
from tests.support.servers import PATIENCE
from tests.support.statements import StatementCounter
from tests.support.tenants import Tenant, new_email, new_tenant
from tests.unit.transports.mailserver import MailServer

HTML = (
    '<html><body><p>Hi %%name%%</p><a href="https://a.example/?x=1&amp;y=2">same</a> %%attachment:none%%</body></html>'
)
OWN = '<a href="https://a.example/%%name%%?n=%%n%%">own</a>'
TEXT = "Hi %%name%%: https://a.example/text, and https://a.example/%%name%%."
PIXEL = re.compile(r'<img src="http://[^"/]+(/o/[^"]+\.gif)"[^>]*></body>')
LINK = re.compile(r"http://[^/\s]+(/c/[A-Za-z0-9_-]+)")


@dataclass
class Inbox:
    """Sends as one account and reads the delivered mails."""

    tenant: Tenant
    worker: Services
    mail_server: MailServer

    def get(self, **changes: Any) -> tuple[str, str]:
        """The HTML and the text of one mail."""
        sends = SendsApi(self.tenant)
        person = {"email": new_email(), "name": "ann", "n": 7}
        sent = sends.send(sends.email(**{"body_html": HTML, "body_text": TEXT, "recipients": [person], **changes}))
        self.uuid, self.group = sent.uuids[0], sent.body["_links"]["transactional_group"]["href"]
        drain(self.worker)
        message = parsed(self.mail_server.mails[-1].content)
        assert message["To"] == person["email"]
        return (body(message, "html") if changes.get("body_html", HTML) else ""), body(message, "plain")

    def counts(self) -> tuple[int, int]:
        assert self.tenant.app.extensions[VISITS].flush(PATIENCE)
        group = self.tenant.api.get(self.group).get_json()
        return group["opened"], group["clicked"]

    def recipient(self) -> dict[str, Any]:
        assert self.tenant.app.extensions[VISITS].flush(PATIENCE)
        body: dict[str, Any] = self.tenant.api.get(f"/v1/transactional-sends/{self.uuid}").get_json()
        return body


@pytest.fixture
def inbox(tenant: Tenant, worker: Services, mail_server: MailServer) -> Inbox:
    return Inbox(tenant, worker, mail_server)


def test_the_pixel_counts_opens_and_links_count_clicks(inbox: Inbox, anon: Client) -> None:
    """Each link leads to exactly the URL that was written, with its wildcards filled in."""
    markup, text = inbox.get(body_html=HTML.replace("</body>", f"{OWN}</body>"))
    assert "<p>Hi ann</p>" in markup
    assert "a.example" not in markup + text
    pixel = PIXEL.search(markup)
    assert pixel
    assert anon.get(pixel[1]).mimetype == "image/gif"
    assert inbox.counts() == (1, 0)
    led = [anon.get(path).headers["Location"] for path in LINK.findall(html.unescape(markup))]
    assert led == ["https://a.example/?x=1&y=2", "https://a.example/ann?n=7"]
    led = [anon.get(path).headers["Location"] for path in LINK.findall(text)]
    assert led == ["https://a.example/text", "https://a.example/ann"]
    assert re.fullmatch(r"Hi ann: http://\S+, and http://\S+\.\s*", text)
    assert inbox.counts() == (1, 1)
    recipient = inbox.recipient()
    assert [step["step"] for step in recipient["timeline"]] == ["sent", "opened", *["clicked"] * 4]
    assert (recipient["state"], recipient["open_type"]) == ("delivered", "html")
    assert recipient["first_click_time"] >= recipient["first_open_time"] >= recipient["send_time"]


def test_links_that_are_equal_for_all_recipients_are_stored(inbox: Inbox) -> None:
    """Such links are stored once per send, so that their tokens are short."""
    markup, _ = inbox.get(body_html=HTML + HTML)
    stored = [(row.link_type, row.url) for row in rows_of(inbox.tenant, SendLink)]
    assert stored == [("html_email", "https://a.example/?x=1&y=2"), ("text_email", "https://a.example/text")]
    assert max(map(len, LINK.findall(markup))) <= len("/c/") + 24


@pytest.mark.parametrize(
    ("changes", "opens", "clicks"),
    [
        ({"track_opens": False}, False, True),
        ({"track_clicks": False}, True, False),
        ({"track_opens": False, "track_clicks": False}, False, False),
        ({"track_opens": None, "track_clicks": None}, True, True),
    ],
)
def test_a_send_can_disable_tracking(inbox: Inbox, changes: dict[str, Any], opens: bool, clicks: bool) -> None:
    """Opens and clicks separately; null means absent."""
    markup, text = inbox.get(**changes)
    assert bool(PIXEL.search(markup)) is opens
    assert bool(LINK.search(markup)) is bool(LINK.search(text)) is clicks


def test_the_request_overrides_the_tracking_settings_of_the_account(
    app: Flask, worker: Services, mail_server: MailServer, anon: Client
) -> None:
    inbox = Inbox(new_tenant(app, track_opens=False, track_clicks=False), worker, mail_server)
    markup, text = inbox.get()
    assert markup.strip() == '<html><body><p>Hi ann</p><a href="https://a.example/?x=1&amp;y=2">same</a> </body></html>'
    assert text.strip() == "Hi ann: https://a.example/text, and https://a.example/ann."
    assert rows_of(inbox.tenant, SendLink) == []
    markup, text = inbox.get(track_opens=True, track_clicks=True)
    assert PIXEL.search(markup)
    assert LINK.search(text)


@pytest.mark.parametrize("asked", [None, True])
def test_a_secret_link_is_tracked_only_when_the_request_asks_for_it(inbox: Inbox, asked: bool | None) -> None:
    """Whether the sender wrote it or a wildcard filled it in, and whatever the account's setting is."""
    markup, text = inbox.get(
        body_html='<p><a href="https://a.example/?reset_token=x1">a</a> <a href="https://a.example/?k=%%n%%">b</a></p>',
        body_text="https://a.example/?token=%%name%% https://a.example/?page=2",
        track_clicks=asked,
    )
    spared = [url for url in ("reset_token=x1", "?token=ann", "?k=7", "?page=2") if url in markup + text]
    assert spared == ([] if asked else ["reset_token=x1", "?token=ann"])
    stored = [row.url for row in rows_of(inbox.tenant, SendLink)]
    assert ("https://a.example/?reset_token=x1" in stored) is bool(asked)


def test_a_mail_with_text_only_has_no_pixel(inbox: Inbox) -> None:
    """A text without links stays as it is."""
    assert inbox.get(body_html="", body_text="Hello\r\nthere")[1].split() == ["Hello", "there"]


def test_links_of_a_generated_text_part_count_as_links_of_a_text(inbox: Inbox, anon: Client) -> None:
    """A person who follows one has read the text part."""
    _, text = inbox.get(body_text=None)
    (path,) = LINK.findall(text)
    assert len(path) <= len("/c/") + 24
    assert anon.get(path).headers["Location"] == "https://a.example/?x=1&y=2"
    assert inbox.recipient()["open_type"] == "text"


def test_a_link_whose_text_is_a_url_leads_where_each_of_its_urls_leads(inbox: Inbox, anon: Client) -> None:
    """In the text part, which has both of them; one that is a secret or an opt-out link is not tracked there either."""
    markup = (
        '<a href="https://a.example/pay?id=%%n%%">https://a.example/pay</a>, '
        '<a href="https://a.example/">A</a>\'s <a href="https://a.example/?token=%%name%%">https://a.example/in</a> '
        '<a href="%%unsubscribe_link%%">https://a.example/unsubscribe</a>'
    )
    _, text = inbox.get(body_html=markup, body_text=None)
    tracked = r"http://[^/\s]+/c/[\w-]+"
    assert re.fullmatch(
        rf"\[{tracked}\]\({tracked}\), \[A\]\({tracked}\)'s \[{tracked}\]\(https://a\.example/\?token=ann\) "
        rf"\[{tracked}\]\(http://[^/\s]+/u/[\w-]+\)\s*",
        text,
        re.ASCII,
    )
    led = [anon.get(path).headers["Location"] for path in LINK.findall(text)]
    assert led == [f"https://a.example/{place}" for place in ("pay", "pay?id=7", "", "in", "unsubscribe")]


@pytest.mark.parametrize("name", ["unsubscribe_link", "preferences_link"])
def test_links_to_unsubscribe_and_to_choose_are_not_tracked(inbox: Inbox, name: str) -> None:
    """They lead to their own pages directly."""
    markup, text = inbox.get(body_html=f'<a href="%%{name}%%">out</a>', body_text=f"Out: %%{name}%%")
    assert re.search(rf'href="http://[^/]+/{name[0]}/[A-Za-z0-9_-]+"', markup)
    assert re.search(rf"Out: http://[^/]+/{name[0]}/[A-Za-z0-9_-]+\s*$", text)


def test_only_emails_are_tracked(tenant: Tenant) -> None:
    """The attributes are unexpected for a text message. For an email they are true or false."""
    sends = SendsApi(tenant)
    for name in ("track_opens", "track_clicks"):
        invalid(sends.post(sends.sms(**{name: True})), "unexpected_field", field=name)
        invalid(sends.post(sends.email(**{name: "on"})), "invalid_boolean", field=name)


def test_tracking_takes_as_many_statements_for_many_links(tenant: Tenant, worker: Services) -> None:
    """The number of statements is fixed both at acceptance and at delivery."""
    counts = []
    for number in (1, 100):
        sends = SendsApi(tenant)
        links = "".join(f'<a href="https://a.example/{place}">' for place in range(number))
        group = sends.send(sends.email()).group.name
        drain(worker)
        with StatementCounter(tenant.services.database.engine) as accepted:
            sends.post(sends.email(body_html=links, group_name=group))
        counts.append(accepted.count)
        drain(worker)
    assert counts[0] == counts[1]
