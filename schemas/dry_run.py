"""The response of a dry run (docs/sending.md#dry-run)."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from app.addresses import MESSAGE_TYPES
from app.recipients.reasons import FailReason
from schemas.links import SelfLinksSchema
from schemas.sends import PRIORITIES

PARTS = ("subject", "body_html", "body_text")
OUTCOMES = ("send", "skip", "fail", "not_rendered")
REASONS = tuple(reason.value for reason in FailReason)
ENCODINGS = ("gsm", "ucs2")


class InvalidMarkupSchema(Schema):
    """A marker that stays in the text as written, with its line from 1."""

    field = fields.String(required=True, validate=validate.OneOf(PARTS))
    line = fields.Integer(required=True)
    marker = fields.String(required=True)


class MailHeaderSchema(Schema):
    """A header of the mail, encoded as it is sent, on one line."""

    name = fields.String(required=True)
    value = fields.String(required=True)


class UnfilledWildcardSchema(Schema):
    """A wildcard without a value where the message shows it; `fallback` is what stands there."""

    field = fields.String(required=True, validate=validate.OneOf(PARTS))
    name = fields.String(required=True)
    fallback = fields.String(required=True)


class ForecastSchema(Schema):
    """What would become of one recipient."""

    outcome = fields.String(required=True, validate=validate.OneOf(OUTCOMES))
    reason = fields.String(required=True, allow_none=True, validate=validate.OneOf([*REASONS, None]))
    detail = fields.String(required=True, allow_none=True)
    contact_id = fields.Integer(required=True, allow_none=True)
    creates_contact = fields.Boolean(required=True)
    email = fields.String(required=True, allow_none=True)
    mobile = fields.String(required=True, allow_none=True)
    subject = fields.String(required=True, allow_none=True)
    body_html = fields.String(required=True, allow_none=True)
    body_text = fields.String(required=True, allow_none=True)
    headers = fields.List(fields.Nested(MailHeaderSchema), required=True)
    size = fields.Integer(required=True, allow_none=True)
    encoding = fields.String(required=True, allow_none=True, validate=validate.OneOf([*ENCODINGS, None]))
    segments = fields.Integer(required=True, allow_none=True)
    wildcards_without_value = fields.List(fields.Nested(UnfilledWildcardSchema), required=True)


class ForecastsSchema(Schema):
    """The recipients in the order of the request."""

    recipients = fields.List(fields.Nested(ForecastSchema), required=True)


class DryRunSchema(Schema):
    """What a send would do: what is the same for all recipients, and each of them."""

    type = fields.String(required=True, validate=validate.OneOf(MESSAGE_TYPES))
    list_id = fields.Integer(required=True, allow_none=True)
    message_id = fields.Integer(required=True, allow_none=True)
    group_id = fields.Integer(required=True, allow_none=True)
    group_name = fields.String(required=True)
    from_name = fields.String(required=True, allow_none=True)
    from_address = fields.String(required=True)
    reply_to = fields.String(required=True, allow_none=True)
    bcc_address = fields.String(required=True, allow_none=True)
    priority = fields.String(required=True, validate=validate.OneOf(PRIORITIES))
    include_unsubscribed = fields.Boolean(required=True)
    track_opens = fields.Boolean(required=True)
    track_clicks = fields.Boolean(required=True)
    invalid_markup = fields.List(fields.Nested(InvalidMarkupSchema), required=True)
    _embedded = fields.Nested(ForecastsSchema, required=True)
    _links = fields.Nested(SelfLinksSchema, required=True)
