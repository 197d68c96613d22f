"""Payloads of events: the objects that a webhook receives (docs/webhooks.md#events).

Pure: facts in, dictionaries out. Their keys are in the documented order.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from app.clock import timestamp
from app.ids import shown_id

Payload = dict[str, Any]


def contact_event(event: str, *, contact_id: int, list_id: int, moment: datetime) -> Payload:
    """`created`, `updated` or `deleted`, whatever caused it."""
    return {
        "object": "contact",
        "event": event,
        "id": contact_id,
        "list_id": shown_id(list_id),
        "timestamp": timestamp(moment),
    }


def recipient_event(
    event: str,
    *,
    recipient_id: int,
    uuid: str,
    group_id: int,
    group_name: str,
    message_id: int | None,
    message_type: str,
    list_id: int | None,
    contact_id: int | None,
    email: str | None,
    mobile: str | None,
    moment: datetime,
    automation_id: int | None = None,
    step_id: int | None = None,
    **extra: str | bool | None,
) -> Payload:
    """An outcome of a recipient. `extra` has the fields of this kind of event, such as `fail_reason`.

    Fields that do not apply are left out rather than null. A group is the report of its sends, so `report_id` repeats
    its id; what the step of an automation sends has no group, and the step is its report (docs/webhooks.md#events).
    """
    of_group = step_id is None
    fields: Payload = {
        "object": "recipient",
        "event": event,
        "id": recipient_id,
        "timestamp": timestamp(moment),
        "automation_id": automation_id,
        "step_id": step_id,
        "uuid": uuid,
        "group_id": group_id if of_group else None,
        "group_name": group_name if of_group else None,
        "report_id": group_id,
        "message_id": shown_id(message_id),
        "message_type": message_type,
        "list_id": shown_id(list_id),
        "contact_id": contact_id,
        "email": email,
        "mobile": mobile,
        **extra,
    }
    return {name: value for name, value in fields.items() if value is not None}


def called_event(*, automation_id: int, step_id: int, contact_id: int, list_id: int, moment: datetime) -> Payload:
    """`called`: a step of an automation reports that a contact came to it (docs/webhooks.md#events)."""
    return {
        "object": "automation",
        "event": "called",
        "automation_id": automation_id,
        "step_id": step_id,
        "contact_id": contact_id,
        "list_id": shown_id(list_id),
        "timestamp": timestamp(moment),
    }


def trial_event(*, webhook_id: int, moment: datetime) -> Payload:
    """`test`: an operator asks whether the webhook works (docs/webhooks.md#deliveries)."""
    return {"object": "webhook", "event": "test", "id": webhook_id, "timestamp": timestamp(moment)}


def failing_event(*, webhook_id: int, url: str, since: datetime, moment: datetime) -> Payload:
    """`failing`: another webhook of the account has failed for a day (docs/webhooks.md#outages)."""
    return {
        "object": "webhook",
        "event": "failing",
        "id": webhook_id,
        "url": url,
        "failing_since": timestamp(since),
        "timestamp": timestamp(moment),
    }


def reply_event(
    message: Payload | None, contact: tuple[int, int] | None, *, mobile: str, body_text: str, moment: datetime
) -> Payload:
    """`received`: a reply (docs/webhooks.md#events).

    `message` is the recipient event of the message that it answers, whose common fields it copies; None if nothing was
    sent to that mobile. `contact` is the list and the contact that wrote it, if the message does not name them: without
    a message the contact's id is that of the event, too.
    """
    common = message or {"message_type": "sms", "mobile": mobile}
    if contact is not None:
        list_id, contact_id = contact
        common = {"id": contact_id, **common, "list_id": shown_id(list_id), "contact_id": contact_id}
    own = {"object": "sms", "event": "received", "timestamp": timestamp(moment), "body_text": body_text}
    return {"object": "sms", "event": "received", **common, **own}
