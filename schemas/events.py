"""Events as webhooks receive them (docs/webhooks.md#events)."""

from __future__ import annotations

from marshmallow import fields, validate

from app.addresses import MESSAGE_TYPES
from schemas.responses import OPTIONAL_METADATA, Id, ResponseSchema, Timestamp, Uuid


def _object(name: str) -> fields.String:
    return fields.String(validate=validate.OneOf([name]))


def _event(*names: str) -> fields.String:
    """The kind of event; further ones may be added, so it is no `enum`, which would make clients refuse a new one."""
    return fields.String(metadata={"x-extensible-enum": list(names)})


def _optional_text(text: str | None = None) -> fields.String:
    return fields.String(metadata=OPTIONAL_METADATA if text is None else {**OPTIONAL_METADATA, "description": text})


def _optional_id() -> Id:
    return Id(metadata=OPTIONAL_METADATA)


def _tags() -> fields.List[str]:
    return fields.List(fields.String(), metadata={**OPTIONAL_METADATA, "description": "The tags of the send."})


def _metadata() -> fields.Dict:
    text = "The metadata of recipient and send."
    return fields.Dict(
        keys=fields.String(), values=fields.String(), metadata={**OPTIONAL_METADATA, "description": text}
    )


class EventSchema(ResponseSchema):
    """What every event has."""

    timestamp = Timestamp()
    test = fields.Boolean(
        metadata={**OPTIONAL_METADATA, "description": "`true` for an event of a test account, absent otherwise."}
    )


class ContactEventSchema(EventSchema):
    """A contact was created, updated or deleted."""

    object = _object("contact")
    event = _event("created", "updated", "deleted")
    id = Id()
    list_id = Id()


class RecipientEventSchema(EventSchema):
    """An outcome of a recipient; properties that do not apply are absent."""

    object = _object("recipient")
    event = _event("sent", "opened", "clicked", "bounced", "failed", "acknowledged")
    id = Id()
    uuid = Uuid()
    report_id = Id()
    message_type = fields.String(validate=validate.OneOf(MESSAGE_TYPES))
    automation_id = _optional_id()
    step_id = _optional_id()
    group_id = _optional_id()
    group_name = _optional_text()
    message_id = _optional_id()
    list_id = _optional_id()
    contact_id = _optional_id()
    email = _optional_text()
    mobile = _optional_text()
    tags = _tags()
    metadata = _metadata()
    device_type = _optional_text("`opened` and `clicked` only: `desktop`, `mobile`, `tablet` or `other`.")
    device_name = _optional_text()
    country_code = _optional_text("Country as two letters (ISO 3166-1 alpha-2).")
    is_machine = fields.Boolean(
        metadata={
            **OPTIONAL_METADATA,
            "description": "`opened` and `clicked` only: `true` if the visit may be a machine's.",
        }
    )
    link_url = _optional_text("`clicked` only: the URL as written in the message.")
    link_type = _optional_text("`clicked` only: `html_email` or `text_email`.")
    bounce_reason = _optional_text()
    bounce_string = _optional_text("`bounced` only: the reply of the receiving server, with RFC 3463 codes.")
    is_temporary_bounce = fields.Boolean(metadata=OPTIONAL_METADATA)
    fail_reason = _optional_text("`failed` only: why. More reasons may be added.")


class SmsEventSchema(EventSchema):
    """A reply was received; it has the properties of the message that it answers, if there is one."""

    object = _object("sms")
    event = _event("received")
    message_type = fields.String(validate=validate.OneOf(["sms"]))
    mobile = fields.String()
    body_text = fields.String()
    id = _optional_id()
    uuid = Uuid(metadata=OPTIONAL_METADATA)
    report_id = _optional_id()
    automation_id = _optional_id()
    step_id = _optional_id()
    group_id = _optional_id()
    group_name = _optional_text()
    message_id = _optional_id()
    list_id = _optional_id()
    contact_id = _optional_id()
    tags = _tags()
    metadata = _metadata()


class AutomationEventSchema(EventSchema):
    """A contact came to a step of an automation that calls this webhook."""

    object = _object("automation")
    event = _event("called")
    automation_id = Id()
    step_id = Id()
    contact_id = Id()
    list_id = Id()


class WebhookEventSchema(EventSchema):
    """A test of this webhook, or news of another webhook of the account, which has failed for a day."""

    object = _object("webhook")
    event = _event("test", "failing")
    id = Id()
    url = _optional_text("Of `failing`.")
    failing_since = Timestamp(metadata=OPTIONAL_METADATA)


EVENT_SCHEMAS = (
    ContactEventSchema,
    RecipientEventSchema,
    SmsEventSchema,
    AutomationEventSchema,
    WebhookEventSchema,
)
