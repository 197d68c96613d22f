"""Transactional sends: the body of a request with its recipients, and the resources in responses
(docs/sending.md#attributes).

Recipients are objects with a few declared attributes and any number of wildcard values. A request may have a hundred of
them, so each is read in a single pass. The declared attributes are those of `RecipientSchema`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, ClassVar

from marshmallow import INCLUDE, ValidationError, fields, validates_schema
from marshmallow.exceptions import SCHEMA

from app.addresses import MESSAGE_TYPES
from app.clock import INSTANT, now
from app.content.limits import MAX_BODY_BYTES, MAX_FROM_NAME_LENGTH, MAX_SUBJECT_LENGTH
from app.content.mail_headers import MAX_HEADERS
from app.errors import MAX_LISTED_ERRORS
from app.names import LONGEST_NAME
from app.recipients.labels import MAX_METADATA_ENTRIES, MAX_TAG_LENGTH, MAX_TAGS, METADATA
from app.sends.accept.draft import (
    DEFAULTS,
    MAX_NAME_LENGTH,
    WILDCARD_NAME,
    Limits,
    MessageType,
    RecipientDraft,
    RecipientRules,
    SendDraft,
    Violation,
    attachment_errors,
    metadata_errors,
    secret_value_errors,
    send_errors,
)
from app.sends.limits import MAX_CANCELLED, MAX_DAYS_AHEAD, MAX_RECIPIENTS, MAX_SECRET_VALUES
from schemas.attachments import attachments
from schemas.base import CodeSchema, Problem, load, problem
from schemas.fields import Array, Boolean, Email, Integer, Mobile, Name, Object, String, about
from schemas.labels import Metadata, Tags
from schemas.mail_headers import MailHeaders
from schemas.responses import (
    OPTIONAL_METADATA,
    LinkSchema,
    ResponseSchema,
    SelfLinksSchema,
    Uuid,
)

# Violations as marshmallow messages, so that they are located and ordered like all other errors.

Messages = dict[str | int, Any]


def add_violations(messages: Messages, violations: Iterable[Violation]) -> None:
    """Adds the violations to nested messages; an attribute may have errors of its parts and of its own."""
    for path, code, detail, follows in violations:
        inner: Any = messages
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        problems = inner.setdefault(path[-1], [])
        if isinstance(problems, dict):
            problems = problems.setdefault(SCHEMA, [])
        problems.append(Problem(code, detail, follows=follows))


class RecipientMetadata(Metadata):
    """The metadata of a recipient. A string or a number of that name is a wildcard value, as of any other name: so it
    was before there was metadata."""

    def __init__(self) -> None:
        super().__init__(
            about(
                "an object: [metadata](tags.md) of this recipient. A string or a number is the value of a wildcard",
                type=["object", "string", "number"],
            )
        )


class RecipientSchema(CodeSchema):
    """Exactly one of email, mobile and contact_id. Every other attribute is the value of the wildcard of that name."""

    class Meta:
        """Unknown attributes are wildcard values."""

        unknown = INCLUDE

    contact_id = Integer(allow_none=True)
    email = Email(allow_none=True)
    mobile = Mobile(allow_none=True)
    attachments = attachments()
    metadata = RecipientMetadata()


class Recipient(Object):
    """One element of `recipients`."""

    def _deserialize(
        self, value: Any, attr: str | None, data: Mapping[str, Any] | None, partial: Any = None, **options: Any
    ) -> RecipientDraft:
        rules: RecipientRules = options["rules"]
        if not isinstance(value, dict):
            raise problem("invalid_object", "A recipient must be an object.")
        declared_values, values, messages = self._read(value, rules)
        add_violations(messages, rules.errors(value))
        if messages:
            raise ValidationError(messages)
        files = declared_values.get("attachments") or ()
        return RecipientDraft(
            declared_values.get("contact_id"),
            declared_values.get("email"),
            declared_values.get("mobile"),
            values,
            tuple(files),
            declared_values.get(METADATA),
        )

    def _read(
        self, recipient: Mapping[str, Any], rules: RecipientRules
    ) -> tuple[dict[str, Any], dict[str, str], Messages]:
        """Returns declared attributes, wildcard values, and the errors of both."""
        declared = self.schema.fields
        declared_values: dict[str, Any] = {}
        values: dict[str, str] = {}
        messages: Messages = {}
        for name, value in recipient.items():
            if len(messages) >= MAX_LISTED_ERRORS:
                break  # a response does not list more
            if name in declared and (name != METADATA or isinstance(value, dict)):
                try:
                    # `deserialize` handles null; for other values it would only add cost.
                    deserialize = declared[name].deserialize if value is None else declared[name]._deserialize
                    declared_values[name] = deserialize(value, name, recipient)
                except ValidationError as error:
                    messages[name] = error.messages
            elif violation := rules.wildcard_error(name, value):
                add_violations(messages, [violation])
            elif value is not None:
                values[name] = value if isinstance(value, str) else json.dumps(value)
        return declared_values, values, messages


class Recipients(Array):
    """The `recipients` of a send."""

    def __init__(self, **options: Any) -> None:
        super().__init__(Recipient(RecipientSchema), most=MAX_RECIPIENTS, required=True, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> list[Any]:
        final_type = getattr(self.parent, "final_type", None)
        rules = RecipientRules.of(data or {}, final_type)
        self._check(value, attr)
        # Valid recipients, the normal case, are loaded without collecting errors.
        with suppress(ValidationError):
            return [self.inner._deserialize(element, None, None, rules=rules) for element in value]
        return super()._deserialize(value, attr, data, rules=rules, **options)


UNSUBSCRIBE_TYPES = ("none", "word", "link")
PRIORITIES = ("high", "normal")
"""An addition to the API (docs/requests.md#additions)."""

NOT_EMPTY = {"minLength": 1}
NOT_BLANK = {**NOT_EMPTY, "pattern": r"\S"}
WILDCARD = {**NOT_EMPTY, "maxLength": MAX_NAME_LENGTH, "pattern": f"^{WILDCARD_NAME.pattern}$"}
"""What the description says of values that a rule refuses, with a code of its own."""
NO_LIMITS = Limits(attachments=2**31, attachment_bytes=2**63)


class Body(String):
    """A text of at most `MAX_BODY_BYTES` bytes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(most=MAX_BODY_BYTES, allow_none=True, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if len(text.encode()) > MAX_BODY_BYTES:
            raise problem("too_long", f"{attr} has more than {MAX_BODY_BYTES} bytes in UTF-8.")
        return text


def read_instant(text: str, attribute: str | None) -> datetime:
    """The time of a text with an offset, to the second. Raises `ValidationError`."""
    if not INSTANT.fullmatch(text):
        detail = f"{attribute} must be a time with its offset from UTC, such as 2026-12-24T09:00:00+01:00."
        raise problem("invalid_iso_date_time", detail)
    try:
        return datetime.fromisoformat(text).replace(microsecond=0)
    except ValueError:
        raise problem("invalid_date_time", f"{attribute}: there is no such day.") from None


class Instant(String):
    """A time with an offset, to the second, in UTC."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        text = super()._deserialize(value, attr, data, **options)
        try:
            return read_instant(text, attr).astimezone(UTC)
        except OverflowError:
            raise problem("invalid_date_time", f"{attr} is beyond the years that can be stored.") from None


class SendAt(String):
    """A time with an offset, at most `MAX_DAYS_AHEAD` days ahead, to the second; None for one that has passed."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        moment = read_instant(super()._deserialize(value, attr, data, **options), attr)
        ahead = moment - now()
        if ahead > timedelta(days=MAX_DAYS_AHEAD):
            raise problem("invalid_range", f"{attr} must be at most {MAX_DAYS_AHEAD} days ahead.")
        return moment.astimezone(UTC) if ahead > timedelta() else None


class SendSchema(CodeSchema):
    """The body of a send; null means absent for every optional attribute.

    It has no rules that depend on the type. The effective type is that of the saved message if the send refers to one,
    so it is not always the one in the body.
    """

    final_type: ClassVar[MessageType | None] = None

    type = String(
        required=True,
        choices=MESSAGE_TYPES,
        metadata=about("required: `email` or `sms`. With `message_id`, the type of the stored message applies instead"),
    )
    list_id = Integer(allow_none=True, metadata=about("required for email. Recipients are contacts of this list"))
    group_id = Integer(
        allow_none=True,
        metadata=about(
            "a [group](#groups). One of `group_id` and `group_name` is required; both are accepted when they name the "
            "same group"
        ),
    )
    group_name = Name(
        least=1,
        most=LONGEST_NAME,
        allow_none=True,
        metadata=about(
            "a new name creates a [group](#groups). A name has up to 255 characters, after surrounding white space is "
            "removed, and no control characters (`invalid_string`)",
            **NOT_BLANK,
        ),
    )
    message_id = Integer(
        allow_none=True, metadata=about("a stored message; its fields are [defaults](#with-a-message)")
    )
    unsubscribe_type = String(
        choices=UNSUBSCRIBE_TYPES,
        allow_none=True,
        metadata=about(
            "`none`, `word` or `link`: how recipients of an sms [opt out](#opting-out-of-sms). In an email send it has "
            "no effect"
        ),
    )
    subject = String(
        most=MAX_SUBJECT_LENGTH,
        allow_none=True,
        metadata=about("up to 998 characters; required unless the message has one", **NOT_BLANK),
    )
    from_name = String(
        most=MAX_FROM_NAME_LENGTH,
        allow_none=True,
        metadata=about("up to 255 characters; required with a stored message that has none"),
    )
    from_address = String(
        allow_none=True,
        metadata=about(
            "the [sender](#senders): an email address of one of the account's domains, or a number or name that is "
            "approved",
            **NOT_EMPTY,
        ),
    )
    reply_to = String(allow_none=True, metadata=about("an email address"))
    bcc_address = Email(
        allow_none=True,
        metadata=about("receives a [copy](#blind-copies) of every mail; its domain must be configured in the account"),
    )
    priority = String(
        choices=PRIORITIES,
        allow_none=True,
        metadata=about(
            "`high` or `normal`: which of the account's messages [leave first](waiting.md#priority). The default is "
            "that of the account for this type"
        ),
    )
    transport = String(
        least=1,
        most=LONGEST_NAME,
        allow_none=True,
        metadata=about("the name of a [transport](#choosing-a-transport) that the account may choose"),
    )
    send_at = SendAt(
        allow_none=True,
        metadata=about(
            f"when to [send it](scheduling.md): a time with an offset, at most {MAX_DAYS_AHEAD} days ahead. "
            "Without it, and for a time that has passed: at once",
            format="date-time",
            example="2026-12-24T09:00:00+01:00",
        ),
    )
    body_html = Body(metadata=about("up to 1 MiB in UTF-8"))
    body_text = Body(
        metadata=about(
            "up to 1 MiB in UTF-8. At least one body is required, and must contain more than white space. A mail with "
            "HTML only gets a [plain-text alternative](#plain-text-alternative)"
        )
    )
    include_unsubscribed = Boolean(
        allow_none=True,
        metadata=about(
            "true also sends to unsubscribed addresses, for [messages that must arrive](#a-message-that-must-arrive). "
            "Such mails carry no `List-Unsubscribe`"
        ),
    )
    recipient_data_html_encoded = Boolean(
        allow_none=True,
        metadata=about("false: the recipients' values are [plain text](personalisation.md#encoding)"),
    )
    track_opens = Boolean(
        allow_none=True,
        metadata=about("true or false for this send; the default is the [account's setting](tracking.md#settings)"),
    )
    track_clicks = Boolean(allow_none=True, metadata=about("the same for clicks"))
    secret_values = Array(
        String(metadata=WILDCARD),
        most=MAX_SECRET_VALUES,
        least_one=False,
        allow_none=True,
        metadata=about("names of up to 20 wildcard values that are [secret](secret-values.md)"),
    )
    recipients = Recipients(metadata=about("required: 1 to 100 [recipients](#recipients)"))
    attachments = attachments(metadata=about("files for all recipients"))
    tags = Tags(
        about(
            f"up to {MAX_TAGS} different [tags](tags.md) of up to {MAX_TAG_LENGTH} characters, by which messages are "
            "found and counted"
        )
    )
    metadata = Metadata(
        about(
            f"an object of up to {MAX_METADATA_ENTRIES} strings, [metadata](tags.md#metadata) by which messages are "
            "found. A recipient may have its own"
        )
    )
    headers = MailHeaders(
        about(
            f"an object of up to {MAX_HEADERS} [header fields](mail-headers.md) that each mail gets, such as `X-Order`"
        )
    )

    def __init__(self, *, limits: Limits = NO_LIMITS, **options: Any) -> None:
        super().__init__(**options)
        self.limits = limits

    @validates_schema(pass_original=True, skip_on_field_errors=False)
    def check_type(self, _data: Mapping[str, Any], original: Mapping[str, Any], **_: Any) -> None:
        """Rules that depend on the type."""
        _raise_if_any(send_errors(original, self.final_type))

    @validates_schema
    def check_together(self, data: Mapping[str, Any], **_: Any) -> None:
        """Names and sizes of the attachments of each recipient, and the names of secret values, once every single
        attribute is valid."""
        if names := data.get("secret_values"):
            _raise_if_any(secret_value_errors(names, data["recipients"], with_list=data.get("list_id") is not None))
        _raise_if_any(metadata_errors(data.get(METADATA), data["recipients"]))
        recipient_files = [recipient.attachments for recipient in data["recipients"]]
        _raise_if_any(attachment_errors(data.get("attachments") or (), recipient_files, self.limits))


def _raise_if_any(violations: Iterable[Violation]) -> None:
    messages: Messages = {}
    add_violations(messages, violations)
    if messages:
        raise ValidationError(messages)


NO_LIST_PROBLEM = Problem(
    "required",
    "list_id is required: an email goes to contacts of a list. GET /v1/lists shows the lists with their ids.",
)


class EmailSendSchema(SendSchema):
    """The body of an email send, which goes to the contacts of a list (docs/sending.md#attributes)."""

    final_type = "email"
    list_id = Integer(required=True, error_messages={"required": NO_LIST_PROBLEM, "null": NO_LIST_PROBLEM})


class SmsSendSchema(SendSchema):
    """The body of an sms send."""

    final_type = "sms"


SCHEMAS: dict[MessageType | None, type[SendSchema]] = {"email": EmailSendSchema, "sms": SmsSendSchema, None: SendSchema}


@lru_cache
def _schema(final_type: MessageType | None, limits: Limits) -> SendSchema:
    """The schema, built once: it keeps no state between loads, and building one costs more than loading."""
    return SCHEMAS[final_type](limits=limits)


def load_send(body: Mapping[str, Any], final_type: MessageType | None, limits: Limits) -> SendDraft:
    """Validates a body and returns the draft. Raises `ServiceError` with every error, in the order of the document."""
    loaded = load(_schema(final_type, limits), body)
    present = {name: value for name, value in loaded.items() if value is not None}
    arrays = {name: tuple(present.get(name, ())) for name in ("recipients", "attachments", "tags")}
    secret_values = frozenset(name.lower() for name in present.get("secret_values", ()))
    return SendDraft(
        **{**DEFAULTS, **present, **arrays, "secret_values": secret_values, "type": final_type or loaded["type"]}
    )


class AcceptedRecipientSchema(ResponseSchema):
    """One accepted recipient."""

    uuid = Uuid()


class SendAnswerEmbeddedSchema(ResponseSchema):
    """The recipients in the order of the request."""

    recipients = fields.List(fields.Nested(AcceptedRecipientSchema))


class SendLinksSchema(SelfLinksSchema):
    """The group that collects the results of a send."""

    transactional_group = fields.Nested(LinkSchema)


class SendAnswerSchema(ResponseSchema):
    """The response to an accepted send."""

    _embedded = fields.Nested(SendAnswerEmbeddedSchema)
    _links = fields.Nested(SendLinksSchema)


class CancelledMessagesLinksSchema(SelfLinksSchema):
    """The link to repeat a request of which more messages match."""

    next = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)


class CancellationSchema(CodeSchema):
    """The messages to cancel."""

    uuids = Array(
        String(most=36, metadata={"format": "uuid"}),
        most=MAX_CANCELLED,
        metadata=about("up to 1,000 uuids of recipients"),
    )


class CancelledMessagesSchema(ResponseSchema):
    """The messages that a request has cancelled, and with `next` the same request for further ones."""

    size = fields.Integer(metadata=about("how many they are"))
    _embedded = fields.Nested(SendAnswerEmbeddedSchema)
    _links = fields.Nested(CancelledMessagesLinksSchema)
