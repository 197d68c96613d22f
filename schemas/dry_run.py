"""The response of a dry run (docs/dry-run.md)."""

from __future__ import annotations

from marshmallow import fields, validate

from app.addresses import MESSAGE_TYPES
from app.recipients.states import FailReason
from schemas.responses import Id, ResponseSchema, SelfLinksSchema, Timestamp
from schemas.sends import PRIORITIES

PARTS = ("subject", "body_html", "body_text")
OUTCOMES = ("send", "skip", "fail", "not_rendered")
REASONS = [reason.value for reason in FailReason]
ENCODINGS = ("gsm", "ucs2")


class InvalidMarkupSchema(ResponseSchema):
    """A marker that stays in the text as written, with its line from 1."""

    field = fields.String(validate=validate.OneOf(PARTS))
    line = fields.Integer()
    marker = fields.String()


class MailHeaderSchema(ResponseSchema):
    """A header of the mail, encoded as it is sent, on one line."""

    name = fields.String()
    value = fields.String()


class UnfilledWildcardSchema(ResponseSchema):
    """A wildcard without a value where the message shows it; `fallback` is what stands there."""

    field = fields.String(validate=validate.OneOf(PARTS))
    name = fields.String()
    fallback = fields.String()


class ForecastSchema(ResponseSchema):
    """What would become of one recipient."""

    outcome = fields.String(validate=validate.OneOf(OUTCOMES))
    reason = fields.String(allow_none=True, metadata={"x-extensible-enum": REASONS})
    detail = fields.String(allow_none=True)
    contact_id = Id(allow_none=True)
    creates_contact = fields.Boolean()
    email = fields.String(allow_none=True)
    mobile = fields.String(allow_none=True)
    subject = fields.String(allow_none=True)
    body_html = fields.String(allow_none=True)
    body_text = fields.String(allow_none=True)
    headers = fields.List(fields.Nested(MailHeaderSchema))
    size = fields.Integer(allow_none=True)
    encoding = fields.String(allow_none=True, validate=validate.OneOf([*ENCODINGS, None]))
    segments = fields.Integer(allow_none=True)
    metadata = fields.Dict(keys=fields.String(), values=fields.String(), allow_none=True)
    wildcards_without_value = fields.List(fields.Nested(UnfilledWildcardSchema))


class DryRunEmbeddedSchema(ResponseSchema):
    """The recipients in the order of the request."""

    recipients = fields.List(
        fields.Nested(ForecastSchema),
    )


class DryRunSchema(ResponseSchema):
    """What a send would do: what is the same for all recipients, and each of them."""

    type = fields.String(validate=validate.OneOf(MESSAGE_TYPES))
    list_id = Id(allow_none=True)
    message_id = Id(allow_none=True)
    group_id = Id(allow_none=True)
    group_name = fields.String()
    from_name = fields.String(allow_none=True)
    from_address = fields.String()
    reply_to = fields.String(allow_none=True)
    bcc_address = fields.String(allow_none=True)
    priority = fields.String(validate=validate.OneOf(PRIORITIES))
    include_unsubscribed = fields.Boolean()
    track_opens = fields.Boolean()
    track_clicks = fields.Boolean()
    send_at = Timestamp(allow_none=True)
    tags = fields.List(fields.String(), allow_none=True)
    invalid_markup = fields.List(
        fields.Nested(InvalidMarkupSchema),
    )
    _embedded = fields.Nested(
        DryRunEmbeddedSchema,
    )
    _links = fields.Nested(
        SelfLinksSchema,
    )
