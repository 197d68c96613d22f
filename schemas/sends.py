"""Transactional sends as clients write them (docs/sending.md#attributes)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, ClassVar

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from app.recipients.states import RecipientState
from app.sends.accept.draft import MessageType, SendDraft
from app.sends.accept.rules import Limits, Violation, attachment_errors, send_errors
from schemas.attachments import attachments
from schemas.base import CodeSchema, Problem, load, problem
from schemas.fields import Boolean, Email, Integer, Name, String
from schemas.links import LinkSchema, SelfLinksSchema
from schemas.recipients import Recipients
from schemas.violations import Messages, add_violations

UNSUBSCRIBE_TYPES = ("none", "word", "link")
STATES = tuple(state.value for state in RecipientState)
"""Of a recipient (docs/delivery.md)."""
LONGEST_SUBJECT = 998
LONGEST_NAME = 255
LONGEST_BODY = 1024 * 1024
"""Bytes in UTF-8 (docs/sending.md#attributes)."""

NO_LIMITS = Limits(attachments=2**31, attachment_bytes=2**63)


class Body(String):
    """A text of at most `LONGEST_BODY` bytes."""

    def __init__(self) -> None:
        super().__init__(most=LONGEST_BODY, allow_none=True)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if len(text.encode()) > LONGEST_BODY:
            raise problem("too_long", f"{attr} has more than {LONGEST_BODY} bytes in UTF-8.")
        return text


class SendSchema(CodeSchema):
    """The body of a send; null means absent for every optional attribute.

    This one asks for nothing that depends on the type. The type that counts is that of the message where the send
    refers to one, so it is not always that of the body.
    """

    final_type: ClassVar[MessageType | None] = None

    type = String(required=True, choices=("email", "sms"))
    list_id = Integer(allow_none=True)
    group_id = Integer(allow_none=True)
    group_name = Name(least=1, most=LONGEST_NAME, allow_none=True)
    message_id = Integer(allow_none=True)
    unsubscribe_type = String(choices=UNSUBSCRIBE_TYPES, allow_none=True)
    subject = String(most=LONGEST_SUBJECT, allow_none=True)
    from_name = String(most=LONGEST_NAME, allow_none=True)
    from_address = String(allow_none=True)
    reply_to = String(allow_none=True)
    bcc_address = Email(allow_none=True)
    body_html = Body()
    body_text = Body()
    include_unsubscribed = Boolean(allow_none=True)
    recipient_data_html_encoded = Boolean(allow_none=True)
    track_opens = Boolean(allow_none=True)
    track_clicks = Boolean(allow_none=True)
    recipients = Recipients()
    attachments = attachments()

    def __init__(self, *, limits: Limits = NO_LIMITS, **options: Any) -> None:
        super().__init__(**options)
        self.limits = limits

    @validates_schema(pass_original=True, skip_on_field_errors=False)
    def check_type(self, _data: Mapping[str, Any], original: Mapping[str, Any], **_: Any) -> None:
        """What the type asks of the other attributes."""
        _refuse(send_errors(original, self.final_type))

    @validates_schema
    def check_attachments(self, data: Mapping[str, Any], **_: Any) -> None:
        """Names and sizes of what one recipient gets, once every attachment is right by itself."""
        own = [one.attachments for one in data["recipients"]]
        _refuse(attachment_errors(data.get("attachments") or (), own, self.limits))


def _refuse(violations: Iterable[Violation]) -> None:
    messages: Messages = {}
    add_violations(messages, violations)
    if messages:
        raise ValidationError(messages)


class EmailSendSchema(SendSchema):
    """The body of an email send, which goes to the contacts of a list (docs/sending.md#attributes)."""

    final_type = "email"
    list_id = Integer(required=True, error_messages={"null": Problem("required")})


class SmsSendSchema(SendSchema):
    """The body of an sms send."""

    final_type = "sms"


DEFAULTS = {
    **dict.fromkeys(SendDraft.__slots__),
    "include_unsubscribed": False,
    "recipient_data_html_encoded": True,
}
SCHEMAS: dict[MessageType | None, type[SendSchema]] = {"email": EmailSendSchema, "sms": SmsSendSchema, None: SendSchema}


@lru_cache
def _schema(final_type: MessageType | None, limits: Limits) -> SendSchema:
    """Made once: a schema keeps nothing of what it loads, and making one costs more than loading."""
    return SCHEMAS[final_type](limits=limits)


def load_send(body: Mapping[str, Any], final_type: MessageType | None, limits: Limits) -> SendDraft:
    """The send that a body asks for. Raises `ServiceError` with every error of it, in the order of the document."""
    loaded = load(_schema(final_type, limits), body)
    given = {name: value for name, value in loaded.items() if value is not None}
    arrays = {name: tuple(given.get(name, ())) for name in ("recipients", "attachments")}
    return SendDraft(**{**DEFAULTS, **given, **arrays, "type": final_type or loaded["type"]})


class RecipientAnswerSchema(Schema):
    """What was promised to one recipient."""

    uuid = fields.String(required=True)


class RecipientAnswersSchema(Schema):
    """The recipients in the order of the request."""

    recipients = fields.List(fields.Nested(RecipientAnswerSchema), required=True)


class SendLinksSchema(SelfLinksSchema):
    """Where the results of a send are found."""

    transactional_group = fields.Nested(LinkSchema, required=True)


class SendAnswerSchema(Schema):
    """The answer to an accepted send."""

    _embedded = fields.Nested(RecipientAnswersSchema, required=True)
    _links = fields.Nested(SendLinksSchema, required=True)


class StepSchema(Schema):
    """What happened to a recipient, and when.

    `detail` holds the other side's own words, for keys with `contact.view`.
    """

    time = fields.String(required=True)
    step = fields.String(required=True)
    detail = fields.String(required=True, allow_none=True)


class TimelineLinksSchema(SelfLinksSchema):
    """What a recipient refers to."""

    transactional_group = fields.Nested(LinkSchema, required=True)
    list = fields.Nested(LinkSchema)
    contact = fields.Nested(LinkSchema)
    message = fields.Nested(LinkSchema)
    next = fields.Nested(LinkSchema)
    prev = fields.Nested(LinkSchema)


class TimelineSchema(Schema):
    """One recipient of a send, with a page of its timeline."""

    uuid = fields.String()
    id = fields.Integer()
    type = fields.String(validate=validate.OneOf(["email", "sms"]))
    state = fields.String(validate=validate.OneOf(STATES))
    reason = fields.String(allow_none=True)
    list_id = fields.Integer(allow_none=True)
    contact_id = fields.Integer(allow_none=True)
    message_id = fields.Integer(allow_none=True)
    group_id = fields.Integer()
    email = fields.String(allow_none=True)
    mobile = fields.String(allow_none=True)
    attempts = fields.Integer()
    creation_time = fields.String()
    send_time = fields.String(allow_none=True)
    first_open_time = fields.String(allow_none=True)
    last_open_time = fields.String(allow_none=True)
    open_type = fields.String(validate=validate.OneOf(["not_opened", "html", "text", "sms"]))
    first_click_time = fields.String(allow_none=True)
    further_visits = fields.Integer()
    complaint_time = fields.String(allow_none=True)
    timeline = fields.List(fields.Nested(StepSchema))
    _links = fields.Nested(TimelineLinksSchema, required=True)
