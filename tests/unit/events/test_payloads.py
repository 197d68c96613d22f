"""The shapes of events (docs/webhooks.md#events)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from app.automations.definition import trigger_names
from app.events.outbox import contact_event, recipient_event

MOMENT = datetime(2026, 1, 31, 9, 0, 5, 123456, UTC)

RECIPIENT_ARGUMENTS: dict[str, Any] = {
    "recipient_id": 41,
    "uuid": "0b0a6d4e-5d0c-4c57-9d0e-6f3a7c1f2b11",
    "group_id": 2,
    "group_name": "Welcome",
    "message_id": 5,
    "message_type": "email",
    "list_id": 3,
    "contact_id": 7,
    "email": "ann@example.com",
    "mobile": None,
}


@pytest.mark.parametrize("event", ["created", "updated", "deleted"])
def test_contact_event_has_exactly_the_specified_fields(event: str) -> None:
    assert contact_event(event, contact_id=7, list_id=3, moment=MOMENT) == {
        "object": "contact",
        "event": event,
        "id": 7,
        "list_id": 3,
        "timestamp": "2026-01-31T09:00:05Z",
    }


def test_timestamps_are_utc_whatever_the_zone_of_the_time() -> None:
    moment = MOMENT.astimezone(timezone(timedelta(hours=10)))
    assert contact_event("created", contact_id=7, list_id=3, moment=moment)["timestamp"] == "2026-01-31T09:00:05Z"


def test_a_recipient_event_names_its_group_and_omits_what_does_not_apply() -> None:
    assert recipient_event("sent", **RECIPIENT_ARGUMENTS, moment=MOMENT) == {
        "object": "recipient",
        "event": "sent",
        "id": 41,
        "timestamp": "2026-01-31T09:00:05Z",
        "uuid": "0b0a6d4e-5d0c-4c57-9d0e-6f3a7c1f2b11",
        "group_id": 2,
        "group_name": "Welcome",
        "report_id": 2,
        "message_id": 5,
        "message_type": "email",
        "list_id": 3,
        "contact_id": 7,
        "email": "ann@example.com",
    }


def test_fields_of_one_event_type_are_added_and_false_is_a_value() -> None:
    event = recipient_event(
        "bounced",
        **RECIPIENT_ARGUMENTS,
        moment=MOMENT,
        bounce_reason="unknown user",
        bounce_string=None,
        is_temporary_bounce=False,
    )
    assert event["bounce_reason"] == "unknown user"
    assert event["is_temporary_bounce"] is False
    assert "bounce_string" not in event


def test_trigger_names_are_those_of_the_specification() -> None:
    assert trigger_names("created") == {
        "standard": "When a Contact is created from the REST API",
        "advanced": "REST API Contact Created",
    }
    assert trigger_names("updated") == {
        "standard": "When a Contact is updated from the REST API",
        "advanced": "REST API Contact Updated",
    }
