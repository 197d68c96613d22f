"""Recipients of sends: their states and timelines."""

from __future__ import annotations

from typing import ClassVar

from transactional_messaging.messages import MessageType, OpenType
from transactional_messaging.resource import NestedList, OptionalTime, Property, Resource, Time


class Recipient(Resource):
    """One message to one address. `state` is `scheduled`, `queued`, `sending`, `sent`, `uncertain`, `delivered`,
    `bounced` or `failed`; `reason` says why it bounced or failed."""

    uuid = Property[str]()
    id = Property[int]()
    type = Property[MessageType]()
    state = Property[str]()
    reason = Property[str | None]()
    list_id = Property[int | None]()
    contact_id = Property[int | None]()
    message_id = Property[int | None]()
    group_id = Property[int | None]()
    automation_id = Property[int | None]()
    step_id = Property[int | None]()
    email = Property[str | None]()
    mobile = Property[str | None]()
    attempts = Property[int]()
    creation_time = Time()
    send_at = OptionalTime()
    send_time = OptionalTime()
    first_open_time = OptionalTime()
    last_open_time = OptionalTime()
    open_type = Property[OpenType]()
    tags = Property[list[str] | None]()
    metadata = Property[dict[str, str] | None]()
    first_click_time = OptionalTime()
    further_visits = Property[int]()
    complaint_time = OptionalTime()
    content_purged_time = OptionalTime()


class TimelineStep(Resource):
    """What happened to a recipient, and when; `detail` is the reply of the mail server or gateway, `transport` the name
    of the one that was used, None for the default one."""

    absent_is_none: ClassVar[bool] = True

    time = Time()
    step = Property[str]()
    detail = Property[str | None]()
    transport = Property[str | None]()


class RecipientTimeline(Recipient):
    """A recipient with a page of its timeline, the oldest step first."""

    timeline = NestedList(TimelineStep)
