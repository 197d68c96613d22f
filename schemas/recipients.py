"""Recipients of sends in responses, with their timelines (docs/endpoints.md#sends)."""

from __future__ import annotations

from marshmallow import fields, validate

from app.addresses import MESSAGE_TYPES
from app.recipients.states import SHOWN_STATES
from schemas.fields import about
from schemas.responses import (
    OPTIONAL_METADATA,
    Id,
    LinkSchema,
    ResponseSchema,
    SelfLinksSchema,
    Timestamp,
    Uuid,
    collection_of,
)

STATES = tuple(state.value for state in SHOWN_STATES)
"""States of a recipient (docs/delivery.md)."""


class TimelineStepSchema(ResponseSchema):
    """A timeline step. `detail` is the reply of the mail server or gateway, for keys with `contact.view`; `transport`
    the name of the transport that was used, absent for the default one."""

    time = Timestamp()
    step = fields.String()
    detail = fields.String(allow_none=True)
    transport = fields.String(metadata=OPTIONAL_METADATA)


class RecipientLinksSchema(SelfLinksSchema):
    """The objects that a recipient refers to: a group, or the automation of the step that sent."""

    transactional_group = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)
    automation = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)
    list = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)
    contact = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)
    message = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)


class RecipientTimelineLinksSchema(RecipientLinksSchema):
    """The links of a recipient, and the other pages of its timeline."""

    next = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)
    prev = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)


class RecipientReportSchema(ResponseSchema):
    """One recipient of a send."""

    uuid = Uuid()
    id = Id()
    type = fields.String(validate=validate.OneOf(MESSAGE_TYPES))
    state = fields.String(
        validate=validate.OneOf(STATES),
        metadata=about(
            "`scheduled`, `queued`, `sending`, `sent` (a text message that the gateway accepted), `uncertain` (a mail "
            "that may have arrived), `delivered`, `bounced` or `failed`"
        ),
    )
    reason = fields.String(allow_none=True, metadata=about("why it bounced or failed"))
    list_id = Id(allow_none=True)
    contact_id = Id(allow_none=True)
    message_id = Id(allow_none=True)
    group_id = Id(allow_none=True)
    automation_id = Id(
        allow_none=True,
        metadata=about(
            "the [automation](automations.md) of the step that sent, to which there is a link, too; such a recipient "
            "has no group"
        ),
    )
    step_id = Id(allow_none=True, metadata=about("the step of that automation"))
    email = fields.String(allow_none=True)
    mobile = fields.String(allow_none=True)
    attempts = fields.Integer()
    creation_time = Timestamp()
    send_at = Timestamp(
        allow_none=True, metadata=about("the time for which it was [scheduled](scheduling.md); null: for at once")
    )
    send_time = Timestamp(allow_none=True)
    first_open_time = Timestamp(allow_none=True)
    last_open_time = Timestamp(allow_none=True)
    open_type = fields.String(validate=validate.OneOf(["not_opened", "html", "text", "sms"]))
    first_click_time = Timestamp(allow_none=True)
    tags = fields.List(fields.String(), allow_none=True, metadata=about("the [tags](tags.md) of the send"))
    metadata = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        allow_none=True,
        metadata=about("the [metadata](tags.md#metadata) of recipient and send, for keys with `contact.view`"),
    )
    further_visits = fields.Integer(
        metadata=about("opens and clicks without a step, because there were [too many](tracking.md#counting)")
    )
    complaint_time = Timestamp(allow_none=True)
    content_purged_time = Timestamp(
        allow_none=True,
        metadata=about(
            "since when the installation has no copy of what was sent ([retention](retention.md)). The report stays"
        ),
    )
    _links = fields.Nested(RecipientLinksSchema)


class RecipientTimelineSchema(RecipientReportSchema):
    """One recipient of a send, with a page of its timeline."""

    timeline = fields.List(
        fields.Nested(TimelineStepSchema),
        metadata=about(
            "the steps. `detail` is the reply of the mail server or gateway, or a text of the service. `transport` is "
            "the name of a [named transport](routes.md#named-transports). New versions may add kinds of steps; treat "
            "an unknown one as a note"
        ),
    )
    _links = fields.Nested(RecipientTimelineLinksSchema)


RecipientCollectionSchema = collection_of("recipients", RecipientReportSchema, title="Recipient")
