"""Events of webhooks."""

from __future__ import annotations

from typing import ClassVar

from transactional_messaging.resource import OptionalTime, Property, Resource, Time


class Event(Resource):
    """What happened to a contact, a recipient or a webhook, in an automation, or by a text message. `object` and
    `event` name it, such as `recipient` and `bounced`; a property that does not apply is None. Newer services may have
    further events and properties: ignore what you do not know."""

    absent_is_none: ClassVar[bool] = True

    object = Property[str]()
    event = Property[str]()
    timestamp = Time()
    id = Property[int | None]()
    list_id = Property[int | None]()
    contact_id = Property[int | None]()
    uuid = Property[str | None]()
    group_id = Property[int | None]()
    group_name = Property[str | None]()
    report_id = Property[int | None]()
    message_id = Property[int | None]()
    message_type = Property[str | None]()
    automation_id = Property[int | None]()
    step_id = Property[int | None]()
    email = Property[str | None]()
    mobile = Property[str | None]()
    tags = Property[list[str] | None]()
    metadata = Property[dict[str, str] | None]()
    bounce_reason = Property[str | None]()
    bounce_string = Property[str | None]()
    is_temporary_bounce = Property[bool | None]()
    fail_reason = Property[str | None]()
    device_type = Property[str | None]()
    device_name = Property[str | None]()
    country_code = Property[str | None]()
    is_machine = Property[bool | None]()
    link_url = Property[str | None]()
    link_type = Property[str | None]()
    body_text = Property[str | None]()
    url = Property[str | None]()
    failing_since = OptionalTime()

    @property
    def test(self) -> bool:
        """Whether a test key caused it."""
        return self.get("test") is True
