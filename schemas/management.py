"""What programs set up by the API: the bodies of requests, and the items of responses (docs/management.md)."""

from __future__ import annotations

from typing import Any

from marshmallow import INCLUDE, fields, validate

from app.addresses import MESSAGE_TYPES
from app.content.limits import MAX_FROM_NAME_LENGTH, MAX_SUBJECT_LENGTH
from app.lists.fields import FIELD_TYPES
from app.names import LONGEST_NAME
from app.recipients.states import FailReason
from schemas.base import CodeSchema
from schemas.dry_run import ForecastSchema, InvalidMarkupSchema
from schemas.fields import Array, Boolean, Integer, Name, Number, Object, String, about
from schemas.responses import (
    OPTIONAL_METADATA,
    Id,
    LinkSchema,
    ResponseSchema,
    SelfLinksSchema,
    Timestamp,
    collection_of,
)
from schemas.sends import Body, Instant

LEVELS = ("report", "limited", "standard")
"""The access levels of keys that a manager's key makes."""
SENDER_KINDS = ("virtual_number", "number", "alphanumeric")
MAX_FIELDS = 200
"""Fields of a list in one request."""
MAX_OPTIONS = 1000
"""Options of a field."""
MAX_STOP_WORDS = 100
MAX_SECRETS = 20
"""Secrets of a webhook, and keys of a domain, in one request."""
MAX_CHOSEN = 1000
"""Events or lists of a webhook."""
MAX_OVERLAP_HOURS = 366 * 24
LONGEST_URL = 2000
NEW_NAME = about("required for a new one, and unique in the account", pattern=r"\S")


class NewSchema(CodeSchema):
    """The body that creates something: some attributes of the one that changes it are required."""

    needs: tuple[str, ...] = ("name",)

    def on_bind_field(self, field_name: str, field_obj: fields.Field[Any]) -> None:
        """Requires the attribute if it is needed."""
        field_obj.required = field_obj.required or field_name in self.needs


# Lists (docs/management.md#lists).


class ListFieldWriteSchema(CodeSchema):
    """A field of a list."""

    name = String(required=True, most=LONGEST_NAME)
    type = String(required=True, choices=tuple(FIELD_TYPES))
    options = Array(String(), most=MAX_OPTIONS, least_one=False)


class ListUpdateSchema(CodeSchema):
    """A change of a list."""

    name = Name(least=1, most=LONGEST_NAME, metadata=NEW_NAME)
    system = Boolean(metadata=about("whether no key can [change its contacts](contacts.md#system-lists)"))
    allow_duplicates = Boolean(metadata=about("whether contacts may share an [identifier](contacts.md#identifiers)"))
    stop_words = Array(
        String(),
        most=MAX_STOP_WORDS,
        least_one=False,
        metadata=about("words by which a recipient of a text message [unsubscribes](unsubscribing.md)"),
    )
    offered = Boolean(metadata=about("whether recipients can choose it on their [preferences page](preferences.md)"))
    offered_name = String(allow_none=True, metadata=about("its name on that page; null for `name`"))
    offered_description = String(allow_none=True, metadata=about("a sentence for that page"))
    fields = Array(  # type: ignore[assignment]
        Object(ListFieldWriteSchema),
        most=MAX_FIELDS,
        least_one=False,
        metadata=about(
            "its [fields](contacts.md#list-fields), each with `name`, `type` and `options`. A change adds those with a "
            "new `name` at the end, and changes those with a known one. Fields are not deleted"
        ),
    )


class ListCreateSchema(ListUpdateSchema, NewSchema):
    """A new list."""


class ManagedListFieldSchema(ResponseSchema):
    """A field of a list."""

    id = Id()
    name = fields.String()
    key = fields.String()
    type = fields.String()
    options = fields.List(fields.String())


class ManagedListLinksSchema(SelfLinksSchema):
    """The links of a list."""

    contacts = fields.Nested(LinkSchema)


class ManagedListSchema(ResponseSchema):
    """A list with its fields."""

    id = Id()
    name = fields.String(allow_none=True)
    system = fields.Boolean()
    allow_duplicates = fields.Boolean()
    stop_words = fields.List(fields.String())
    offered = fields.Boolean()
    offered_name = fields.String(allow_none=True)
    offered_description = fields.String(allow_none=True)
    creation_time = Timestamp()
    last_modified_time = Timestamp()
    _links = fields.Nested(ManagedListLinksSchema)
    fields = fields.List(fields.Nested(ManagedListFieldSchema))  # type: ignore[assignment]


# Stored messages (docs/management.md#messages).


class MessageUpdateSchema(CodeSchema):
    """A change of a stored message."""

    name = Name(least=1, most=LONGEST_NAME, metadata=NEW_NAME)
    type = String(choices=MESSAGE_TYPES, metadata=about("required for a new one: `email` or `sms`. It cannot change"))
    subject = String(most=MAX_SUBJECT_LENGTH, allow_none=True, metadata=about("the subject of a mail"))
    from_name = String(most=MAX_FROM_NAME_LENGTH, allow_none=True, metadata=about("the name of its sender"))
    from_address = String(
        allow_none=True, metadata=about("its sender: an email address, or for a text message a [sender](#senders)")
    )
    reply_to = String(allow_none=True, metadata=about("where replies to a mail go"))
    thumbnail_url = String(most=LONGEST_URL, allow_none=True, metadata=about("a picture of it, for your own use"))
    body_html = Body(metadata=about("the HTML of a mail, up to 1 MiB in UTF-8"))
    body_text = Body(metadata=about("the text, up to 1 MiB in UTF-8"))


class MessageCreateSchema(MessageUpdateSchema, NewSchema):
    """A new stored message."""

    needs = ("name", "type")


class ManagedMessageSchema(ResponseSchema):
    """A stored message without its bodies."""

    id = Id()
    name = fields.String()
    type = fields.String(validate=validate.OneOf(MESSAGE_TYPES))
    subject = fields.String(allow_none=True)
    from_name = fields.String(allow_none=True)
    from_address = fields.String(allow_none=True)
    reply_to = fields.String(allow_none=True)
    thumbnail_url = fields.String(allow_none=True)
    creation_time = Timestamp()
    last_modified_time = Timestamp()
    _links = fields.Nested(SelfLinksSchema)


class ManagedMessageWithContentSchema(ManagedMessageSchema):
    """A stored message with its bodies."""

    body_html = fields.String(allow_none=True)
    body_text = fields.String(allow_none=True)


class PreviewRecipientSchema(CodeSchema):
    """The recipient of a preview, which is checked as that of a send."""

    class Meta:
        """Every attribute is checked later."""

        unknown = INCLUDE


class MessagePreviewSchema(CodeSchema):
    """Whom a preview is for, and content that takes the place of what is stored."""

    list_id = Integer(allow_none=True, metadata=about("the list of the send"))
    recipients = Array(
        Object(PreviewRecipientSchema),
        most=1,
        metadata=about(
            "at most one [recipient](sending.md#recipients), as in a send. One without an address gets one that stands "
            "for any"
        ),
    )
    subject = String(most=MAX_SUBJECT_LENGTH, allow_none=True)
    from_name = String(most=MAX_FROM_NAME_LENGTH, allow_none=True)
    from_address = String(allow_none=True)
    reply_to = String(allow_none=True)
    body_html = Body()
    body_text = Body()


class RefusalSchema(ResponseSchema):
    """Why a send would be refused."""

    code = fields.String()
    detail = fields.String()


class PreviewedMessageSchema(ForecastSchema):
    """A stored message as a recipient would get it."""

    skip = fields.String(allow_none=True, metadata={"x-extensible-enum": [reason.value for reason in FailReason]})
    refusals = fields.List(fields.Nested(RefusalSchema))
    invalid_markup = fields.List(fields.Nested(InvalidMarkupSchema))
    _links = fields.Nested(SelfLinksSchema)


# Webhooks (docs/management.md#webhooks).


class SecretWriteSchema(CodeSchema):
    """A signing secret."""

    id = String(required=True)
    secret = String(required=True)


class WebhookUpdateSchema(CodeSchema):
    """A change of a webhook."""

    events = Array(
        String(),
        most=MAX_CHOSEN,
        allow_none=True,
        metadata=about(
            "the [events](webhooks.md#events) that it receives, such as `recipient` or `contact.created`; null: all"
        ),
    )
    list_ids = Array(
        Integer(),
        most=MAX_CHOSEN,
        allow_none=True,
        metadata=about("the lists whose events it receives; null: those of all, and those without a list"),
    )
    secrets = Array(
        Object(SecretWriteSchema),
        most=MAX_SECRETS,
        least_one=False,
        metadata=about(
            "signing secrets, each with `id` and `secret` (32 bytes or more). A change adds those with a new `id`, and "
            "replaces those with a known one. A new webhook without any gets one, which is shown once"
        ),
    )


class WebhookCreateSchema(WebhookUpdateSchema):
    """A new webhook."""

    url = String(required=True, least=1, most=LONGEST_URL, metadata=about("required for a new one. It cannot change"))
    test = Boolean(metadata=about("for a new one: whether it receives the events of [test keys](testing.md) alone"))


class NewSecretSchema(CodeSchema):
    """A further secret of a webhook."""

    id = String(metadata=about("default: the first of `k1`, `k2`, … that is free"))
    secret = String(metadata=about("32 bytes or more. Default: a generated one, which is shown once"))


class ManagedSecretSchema(ResponseSchema):
    """A signing secret without what signs."""

    id = fields.String()
    creation_time = Timestamp()


class GeneratedSecretSchema(ResponseSchema):
    """A signing secret, which is shown once."""

    id = fields.String()
    secret = fields.String()


class ManagedWebhookSchema(ResponseSchema):
    """A webhook and its state."""

    id = Id()
    url = fields.String()
    events = fields.List(fields.String(), allow_none=True)
    list_ids = fields.List(Id(), allow_none=True)
    test = fields.Boolean()
    secrets = fields.List(fields.Nested(ManagedSecretSchema))
    is_checked = fields.Boolean()
    refusal = fields.String(allow_none=True)
    waiting_events = fields.Integer()
    dropped_events = fields.Integer()
    failures = fields.Integer()
    failing_since = Timestamp(allow_none=True)
    creation_time = Timestamp()
    _links = fields.Nested(SelfLinksSchema)


class WebhookWithSecretSchema(ManagedWebhookSchema):
    """A webhook with the secret that was generated for it."""

    generated_secret = fields.Nested(GeneratedSecretSchema, metadata=OPTIONAL_METADATA)


# Sending domains (docs/management.md#domains).


class DomainKeyWriteSchema(CodeSchema):
    """A DKIM key of your own."""

    selector = String(required=True)
    private_key = String(required=True)


class DomainUpdateSchema(CodeSchema):
    """A change of a sending domain."""

    tracking_host = String(
        allow_none=True, metadata=about("the [host](deliverability.md#hosts-of-a-domain) of links in its mail")
    )
    return_path_host = String(allow_none=True, metadata=about("the domain of its return path"))
    keys = Array(
        Object(DomainKeyWriteSchema),
        most=MAX_SECRETS,
        least_one=False,
        metadata=about("DKIM keys of your own, each with `selector` and `private_key` in PEM. Known ones stay"),
    )


class DomainCreateSchema(DomainUpdateSchema):
    """A new sending domain."""

    name = String(required=True, least=1, metadata=about("required for a new one. It cannot change"))
    selector = String(metadata=about("for a new one: the selector of the keys that are generated"))


class DomainRotationSchema(CodeSchema):
    """New keys of a domain."""

    selector = String(metadata=about("the selector of the RSA key. Default: a random one"))


class ManagedRecordSchema(ResponseSchema):
    """A DNS record to publish, and what the last check has found."""

    purpose = fields.String()
    name = fields.String()
    type = fields.String()
    value = fields.String()
    state = fields.String(allow_none=True)
    published = fields.List(fields.String())


class ManagedDomainKeySchema(ResponseSchema):
    """A DKIM key without what signs."""

    selector = fields.String()
    algorithm = fields.String()
    state = fields.String()
    creation_time = Timestamp()
    retired_time = Timestamp(allow_none=True)


class ManagedDomainSchema(ResponseSchema):
    """A sending domain with the records to publish."""

    id = Id()
    name = fields.String()
    verified = fields.Boolean()
    trusted = fields.Boolean()
    verified_time = Timestamp(allow_none=True)
    checked_time = Timestamp(allow_none=True)
    is_checked = fields.Boolean()
    tracking_host = fields.String(allow_none=True)
    return_path_host = fields.String(allow_none=True)
    records = fields.List(fields.Nested(ManagedRecordSchema))
    keys = fields.List(fields.Nested(ManagedDomainKeySchema))
    creation_time = Timestamp()
    _links = fields.Nested(SelfLinksSchema)


# Senders of text messages (docs/management.md#senders).


class SenderUpdateSchema(CodeSchema):
    """A change of a sender of text messages."""

    kind = String(
        choices=SENDER_KINDS,
        metadata=about("`virtual_number` (people can reply), `number` (nobody can), or `alphanumeric`: a name"),
    )
    list_id = Integer(allow_none=True, metadata=about("the only list that can use it; null: any"))
    messages_per_second = Number(allow_none=True, metadata=about("how many its gateway accepts; null: no limit"))
    note = String(allow_none=True, metadata=about("a note, such as its purpose"))


class ManagedSenderSchema(ResponseSchema):
    """A sender of text messages."""

    id = Id()
    address = fields.String()
    kind = fields.String(validate=validate.OneOf(SENDER_KINDS))
    list_id = Id(allow_none=True)
    messages_per_second = fields.Float(allow_none=True)
    note = fields.String(allow_none=True)
    creation_time = Timestamp()
    _links = fields.Nested(SelfLinksSchema)


# Keys (docs/management.md#keys).


class KeyUpdateSchema(CodeSchema):
    """A change of a key."""

    access_level = String(choices=LEVELS, metadata=about("required for a new one: `report`, `limited` or `standard`"))
    list_id = Integer(
        allow_none=True, metadata=about("the list of mails that are [sent by SMTP](smtp-submission.md) and name none")
    )
    expiry_time = Instant(
        allow_none=True,
        metadata=about(
            "a time with its offset. A key that has one is [refused](requests.md#keys-and-scopes)", format="date-time"
        ),
    )


class KeyCreateSchema(KeyUpdateSchema, NewSchema):
    """A new key."""

    needs = ("name", "access_level")

    name = Name(
        least=1,
        most=LONGEST_NAME,
        metadata=about("required for a new one, and unique. It cannot change", pattern=r"\S"),
    )
    test = Boolean(metadata=about("for a new one: whether it is a [test key](testing.md)"))


class KeyRotationSchema(CodeSchema):
    """How a key is rotated."""

    overlap_hours = Number(
        least=0, most=MAX_OVERLAP_HOURS, metadata=about("hours for which the old token works, 168 by default")
    )


class ManagedKeySchema(ResponseSchema):
    """A key without its token."""

    id = Id()
    name = fields.String()
    access_level = fields.String(validate=validate.OneOf(LEVELS))
    list_id = Id(allow_none=True)
    test = fields.Boolean()
    begins_with = fields.String()
    creation_time = Timestamp()
    last_used_time = Timestamp(allow_none=True)
    valid_until = Timestamp(allow_none=True)
    expiry_time = Timestamp(allow_none=True)
    revoked_time = Timestamp(allow_none=True)
    _links = fields.Nested(SelfLinksSchema)


class KeyWithTokenSchema(ManagedKeySchema):
    """A new key with its token, which is shown once."""

    token = fields.String()


class FormerKeySchema(ResponseSchema):
    """The token that a key had before it was rotated."""

    id = Id()
    name = fields.String()
    valid_until = Timestamp()


class RotatedKeySchema(KeyWithTokenSchema):
    """The new token of a key, and until when the former one works."""

    former_key = fields.Nested(FormerKeySchema)


ManagedListCollectionSchema = collection_of("lists", ManagedListSchema)
ManagedMessageCollectionSchema = collection_of("messages", ManagedMessageSchema)
ManagedWebhookCollectionSchema = collection_of("webhooks", ManagedWebhookSchema)
ManagedDomainCollectionSchema = collection_of("domains", ManagedDomainSchema)
ManagedSenderCollectionSchema = collection_of("senders", ManagedSenderSchema)
ManagedKeyCollectionSchema = collection_of("keys", ManagedKeySchema)
