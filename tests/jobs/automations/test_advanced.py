"""Advanced automations: steps in their order and at their time, once for each contact
(docs/automation-runs.md#rules)."""

from __future__ import annotations

from typing import Any

import pytest

from app.contacts.suppress import block, unsubscribe
from app.tracking.links import InlineLink, link_token
from tests.jobs.automations.conftest import ADVANCED, READER, Story
from tests.support.tenants import new_email

SERIES: list[dict[str, Any]] = [
    {"name": "hello", "send": "Hello"},
    {"name": "two days", "wait": "2 days"},
    {"name": "again", "send": "Again"},
]
IF_OPENED: list[dict[str, Any]] = [
    {"name": "hello", "send": "Hello"},
    {
        "name": "read it",
        "branch": {"step": "hello", "did": "opened", "within": "2 days"},
        "then": [{"name": "thanks", "send": "Thanks"}],
        "else": [{"name": "reminder", "send": "Reminder"}],
    },
]
LINKS = """
<a href="https://a.example/yes">yes</a> <a href="https://a.example/no">no</a>
<a href="https://a.example/%%plan%%?to=%%first_name**you%%&amp;a=yes">yes</a>
<a href="https://a.example/%%plan%%?to=%%first_name**you%%&amp;a=no">no</a>
"""


@pytest.fixture
def messages(story: Story) -> None:
    """The stored messages that the automations send."""
    for name in ("Hello", "Again", "Thanks", "Reminder"):
        story.tenant.add_message(name=name, subject=name, body_html=LINKS)


pytestmark = pytest.mark.usefixtures("messages")


def test_a_series_goes_on_when_its_wait_is_over_and_not_before(story: Story) -> None:
    series = story.automation(**ADVANCED, steps=SERIES)
    email = new_email()
    contact_id = story.contact(email=email)
    story.work()
    assert story.mails() == [(email, "Hello")]
    assert story.states(series) == [("waiting", "two days")]
    story.calendar.move(days=2, seconds=-1)
    story.work()
    assert story.mails() == [(email, "Hello")]
    story.calendar.move(seconds=1)
    story.work()
    assert story.mails() == [(email, "Hello"), (email, "Again")]
    assert story.states(series) == [("ended", "completed")]
    assert story.passed(contact_id) == [("hello", "done", None), ("two days", "done", None), ("again", "done", None)]


@pytest.mark.parametrize(
    ("late", "taken"), [(0, "thanks"), (1, "reminder")], ids=["in the last second", "a second too late"]
)
def test_an_open_in_the_last_second_counts_and_one_a_second_later_does_not(story: Story, late: int, taken: str) -> None:
    story.automation(**ADVANCED, steps=IF_OPENED)
    contact_id = story.contact()
    story.work()
    (hello,) = story.recipients(contact_id)
    story.calendar.move(days=2, seconds=late)
    story.opens(hello)
    story.work()
    story.calendar.move(seconds=2)
    story.work()
    assert [step for step, _, _ in story.passed(contact_id)] == ["hello", "read it", taken]


def test_an_open_ends_the_wait_at_once(story: Story) -> None:
    story.automation(**ADVANCED, steps=IF_OPENED)
    email = new_email()
    contact_id = story.contact(email=email)
    other = story.contact()
    story.work()
    story.calendar.move(hours=3)
    story.opens(story.recipients(contact_id)[0])
    story.work()
    assert story.mails()[-1] == (email, "Thanks")
    assert [step for step, _, _ in story.passed(other)] == ["hello"]
    assert story.passed(contact_id)[1:] == [("read it", "then", None), ("thanks", "done", None)]


@pytest.mark.parametrize(
    ("asked", "clicks"),
    [
        ("https://a.example/yes", ("https://a.example/no", "https://a.example/yes")),
        (
            "https://a.example/%%plan%%?to=%%first_name**you%%&a=yes",
            ("https://a.example/gold?to=Ann&a=no", "https://a.example/gold?to=Ann&a=yes"),
        ),
    ],
    ids=["as written", "with wildcards"],
)
def test_a_click_on_another_link_is_none_on_the_one_asked_about(
    story: Story, asked: str, clicks: tuple[str, str]
) -> None:
    clicked = {"step": "hello", "did": "clicked", "link": asked, "within": "1 day"}
    story.automation(**ADVANCED, steps=[IF_OPENED[0], {**IF_OPENED[1], "branch": clicked}])
    contact_id = story.contact()
    story.work()
    for url in clicks:
        (hello,) = story.recipients(contact_id)
        token = link_token(story.worker.settings.secret_key, InlineLink(hello.id, "html_email", url))
        assert story.tenant.api.get(f"/c/{token}", headers=READER).status_code == 302
        story.flush_visits()
        assert len(story.passed(contact_id)) == 1
        story.work()
    assert [step for step, _, _ in story.passed(contact_id)] == ["hello", "read it", "thanks"]


def test_the_email_steps_of_an_unsubscribed_contact_are_skipped_and_the_others_go_on(story: Story) -> None:
    series = story.automation(**ADVANCED, steps=[*SERIES, {"name": "mark", "set": {"first_name": "Marked"}}])
    email = new_email()
    contact_id = story.contact(email=email)
    story.work()
    with story.worker.database.write() as transaction:
        unsubscribe(transaction, story.tenant.id, "email", email, story.list_id)
    story.calendar.move(days=2)
    story.work()
    assert story.mails() == [(email, "Hello")]
    assert story.passed(contact_id)[2:] == [("again", "skipped", "unsubscribed"), ("mark", "done", None)]
    assert story.states(series) == [("ended", "completed")]


def test_a_blocked_contact_is_sent_nothing_more(story: Story) -> None:
    story.automation(**ADVANCED, steps=SERIES)
    email = new_email()
    contact_id = story.contact(email=email)
    story.work()
    with story.worker.database.write() as transaction:
        block(transaction, story.tenant.id, "email", email, "test")
    story.calendar.move(days=2)
    story.work()
    assert story.passed(contact_id)[2:] == [("again", "skipped", "blocked")]


def test_the_run_of_a_deleted_contact_ends_with_it(story: Story) -> None:
    series = story.automation(**ADVANCED, steps=SERIES)
    contact_id = story.contact()
    story.work()
    story.tenant.api.delete(f"/v1/lists/{story.list_id}/contacts/{contact_id}")
    assert story.states(series) == [("ended", "contact deleted")]
    story.calendar.move(days=2)
    story.work()
    assert len(story.mails()) == 1


def test_a_contact_that_was_deactivated_leaves(story: Story) -> None:
    series = story.automation(**ADVANCED, steps=SERIES)
    contact_id = story.contact()
    story.work()
    story.change(contact_id, is_active=False)
    story.calendar.move(days=2)
    story.work()
    assert story.states(series) == [("ended", "contact inactive")]
    assert len(story.mails()) == 1


def test_what_a_step_sets_or_unsubscribes_is_an_event_and_fires_no_trigger(story: Story) -> None:
    story.rows.add_webhook()
    steps = [
        {"name": "mark", "set": {"plan": "gold", "first_name": None}},
        {"name": "is gold", "branch": {"if": "plan:EXACTLY:gold"}, "then": [{"name": "out", "unsubscribe": "email"}]},
        {"name": "hello", "send": "Hello"},
    ]
    updated = story.automation(kind="advanced", trigger="REST API Contact Updated", steps=SERIES)
    story.automation(**ADVANCED, steps=steps)
    contact_id = story.contact(first_name="Ann", plan="free")
    story.work()
    contact = story.tenant.api.get(f"/v1/lists/{story.list_id}/contacts/{contact_id}").get_json()
    assert (contact["plan"], contact["first_name"], contact["subscribed"]) == (
        "gold",
        None,
        {"email": False, "mobile": True},
    )
    assert story.passed(contact_id) == [
        ("mark", "done", None),
        ("is gold", "then", None),
        ("out", "done", None),
        ("hello", "skipped", "unsubscribed"),
    ]
    assert [event["id"] for event in story.events("updated")] == [contact_id, contact_id]
    assert story.runs(updated) == []


def test_a_call_is_an_event_of_that_webhook_alone(story: Story) -> None:
    story.rows.add_webhook()
    url = "https://called.example/in"
    webhook_id = story.add_webhook(url)
    called = story.automation(**ADVANCED, steps=[{"name": "tell", "call": url}])
    contact_id = story.contact()
    story.work()
    assert story.events_of("called") == [
        (
            webhook_id,
            {
                "object": "automation",
                "event": "called",
                "automation_id": called,
                "step_id": story.steps["tell"],
                "contact_id": contact_id,
                "list_id": story.list_id,
                "timestamp": "2026-03-02T08:00:00Z",
            },
        )
    ]


def test_a_refused_message_is_a_skipped_step_with_the_code_of_the_error(story: Story) -> None:
    series = story.automation(**ADVANCED, steps=SERIES)
    contact_id = story.contact()
    story.set_account(owner_confirmed=False)
    story.work()
    assert story.passed(contact_id) == [("hello", "skipped", "account_owner_unverified")]
    assert story.states(series) == [("waiting", "two days")]
