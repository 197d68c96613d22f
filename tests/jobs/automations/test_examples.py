"""The examples of docs/automations.md#examples, run as they are written."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from app.automations.parse import read_definition
from app.clock import this_second
from app.db.models import ListField, Webhook
from app.runs.define import create_automation
from tests.jobs.automations.conftest import Story
from tests.support.blocks import blocks
from tests.support.tenants import new_email

PAGE = Path(__file__).parents[3] / "docs" / "automations.md"
WRITTEN = [yaml.safe_load(block.text) for block in blocks(PAGE) if block.language == "yaml"]
HOOK = "https://hooks.acme.example/in"
MESSAGES = (
    *("Welcome", "Tips", "Welcome again", "Gold offer"),
    *("Please confirm", "Please confirm again", "Gift", "Birthday wishes"),
)


@pytest.fixture
def shop(story: Story) -> Story:
    """A story with all that the examples name; the subject of a message is its name."""
    field = {"list_id": story.list_id, "position": 99, "name": "Status", "key": "status", "type": "Text Field"}
    story.tenant.add(ListField, **field, options=[])
    for name in MESSAGES:
        story.tenant.add_message(name=name, subject=name)
    moment = this_second()
    story.tenant.add(Webhook, url=HOOK, creation_time=moment, due_time=moment)
    return story


def begin(shop: Story, name: str) -> int:
    """The automation of that name on the page."""
    (document,) = [document for document in WRITTEN if document["name"] == name]
    with shop.worker.database.write() as transaction:
        return create_automation(transaction, shop.tenant.id, read_definition(document), 100).id


def subjects(shop: Story, email: str) -> list[str]:
    """What the address has got."""
    return [subject for address, subject in shop.mails() if address == email]


def at(shop: Story, day: datetime) -> None:
    """Works at a later moment."""
    shop.calendar.moment = day
    shop.work()


def march(day: int, hour: int = 8) -> datetime:
    return datetime(2026, 3, day, hour, tzinfo=UTC)


def test_every_definition_on_the_page_is_valid(shop: Story) -> None:
    assert [begin(shop, document["name"]) for document in WRITTEN]


def test_the_welcome_series_asks_who_has_read_it_and_goes_on_next_monday(shop: Story) -> None:
    series = begin(shop, "Welcome series")
    reader, other, former = (new_email(name) for name in ("reader", "other", "former"))
    reading = shop.contact(email=reader, plan="gold")
    shop.contact(email=other, plan="free")
    leaving = shop.contact(email=former)
    at(shop, march(2))
    shop.opens(shop.recipients(reading)[0])
    shop.change(leaving, status="cancelled")
    at(shop, march(3))
    assert [subjects(shop, email) for email in (reader, other, former)] == [
        ["Welcome", "Tips"],
        ["Welcome"],
        ["Welcome"],
    ]
    at(shop, march(4, 9))
    assert subjects(shop, other) == ["Welcome", "Welcome again"]
    at(shop, march(9, 9))
    assert subjects(shop, reader) == ["Welcome", "Tips", "Gold offer"]
    assert subjects(shop, other) == ["Welcome", "Welcome again"]
    assert sorted(shop.states(series)) == [("ended", "completed"), ("ended", "completed"), ("ended", "left")]
    values = shop.tenant.api.get(f"/v1/lists/{shop.list_id}/contacts/{reading}").get_json()
    assert values["status"] == "welcomed"


def test_the_double_opt_in_reminder_ends_with_the_confirmation_or_after_ten_days(shop: Story) -> None:
    reminder = begin(shop, "Double opt-in reminder")
    sure, unsure, silent = (new_email(name) for name in ("sure", "unsure", "silent"))
    shop.contact(email=sure, double_opt_in=True)
    confirming = shop.contact(email=unsure)
    never = shop.contact(email=silent)
    at(shop, march(2))
    at(shop, march(5))
    shop.change(confirming, double_opt_in=True)
    at(shop, march(12))
    both = ["Please confirm", "Please confirm again"]
    assert [subjects(shop, email) for email in (sure, unsure, silent)] == [[], both, both]
    assert sorted(shop.states(reminder)) == [("ended", "completed"), ("ended", "left")]
    contact = shop.tenant.api.get(f"/v1/lists/{shop.list_id}/contacts/{never}").get_json()
    assert contact["subscribed"] == {"email": False, "mobile": True}
    (called,) = shop.events("called")
    assert (called["automation_id"], called["contact_id"]) == (reminder, never)


def test_the_birthday_is_that_of_the_next_year_when_this_years_is_past(shop: Story) -> None:
    begin(shop, "Birthday")
    soon, late, unknown = (new_email(name) for name in ("soon", "late", "unknown"))
    shop.contact(email=soon, born="1985-03-12")
    shop.contact(email=late, born="1990-02-27")
    shop.contact(email=unknown)
    for moment in (march(2), march(5, 8), march(5, 9), march(12, 9)):
        at(shop, moment)
    assert subjects(shop, soon) == ["Gift", "Birthday wishes"]
    for moment in (datetime(2027, 2, 20, 8, tzinfo=UTC), datetime(2027, 2, 20, 9, tzinfo=UTC)):
        assert subjects(shop, late) == []
        at(shop, moment)
    assert subjects(shop, late) == ["Gift"]
    at(shop, datetime(2027, 2, 27, 9, tzinfo=UTC))
    assert subjects(shop, late) == ["Gift", "Birthday wishes"]
    assert subjects(shop, unknown) == []
