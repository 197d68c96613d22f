"""Standard automations from the trigger to the event (docs/automations.md)."""

from __future__ import annotations

from tests.jobs.automations.conftest import CREATED, UPDATED, Story
from tests.support.tenants import new_email


def test_a_created_contact_is_sent_the_message_once_with_the_step_in_its_event(story: Story) -> None:
    story.rows.add_webhook()
    message_id = story.tenant.add_message(name="Welcome")
    welcome = story.automation(kind="standard", trigger=CREATED, message="Welcome")
    email = new_email()
    contact_id = story.contact(email=email, first_name="Ann")
    story.work()
    story.work()
    assert story.mails() == [(email, "Hi Ann")]
    assert story.states(welcome) == [("ended", "completed")]
    step_id = story.steps["message"]
    (recipient,) = story.recipients(contact_id)
    assert story.events("sent") == [
        {
            "object": "recipient",
            "event": "sent",
            "id": recipient.id,
            "timestamp": "2026-03-02T08:00:00Z",
            "automation_id": welcome,
            "step_id": step_id,
            "uuid": recipient.uuid,
            "report_id": step_id,
            "message_id": message_id,
            "message_type": "email",
            "list_id": story.list_id,
            "contact_id": contact_id,
            "email": email,
        }
    ]


def test_an_updated_contact_is_sent_the_message_at_each_update(story: Story) -> None:
    story.tenant.add_message(name="Thanks")
    thanks = story.automation(kind="standard", trigger=UPDATED, message="Thanks")
    contact_id = story.contact()
    story.work()
    assert story.mails() == []
    story.change(contact_id, first_name="Ann")
    story.change(contact_id, first_name="Bea")
    story.work()
    assert len(story.mails()) == 2
    assert story.states(thanks) == [("ended", "completed")] * 2
