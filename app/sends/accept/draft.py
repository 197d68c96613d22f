"""A send as a client requests it, with a valid body. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

MessageType = Literal["email", "sms"]
Priority = Literal["high", "normal"]


@dataclass(frozen=True, slots=True)
class AttachmentDraft:
    """`content` is decoded."""

    name: str
    mime_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class RecipientDraft:
    """A recipient with exactly one of email, mobile and contact_id. `values` are those of its wildcards, without
    nulls."""

    contact_id: int | None
    email: str | None
    mobile: str | None
    values: Mapping[str, str]
    attachments: tuple[AttachmentDraft, ...] = ()


@dataclass(frozen=True, slots=True)
class SendDraft:
    """`type` is the effective one: that of the saved message if the send refers to one
    (docs/sending.md#with-a-message)."""

    type: MessageType
    list_id: int | None
    group_id: int | None
    group_name: str | None
    message_id: int | None
    unsubscribe_type: str | None
    subject: str | None
    from_name: str | None
    from_address: str | None
    reply_to: str | None
    bcc_address: str | None
    priority: Priority | None
    """None: as the account has set it for the type."""
    transport: str | None
    """None: as the routes say."""
    body_html: str | None
    body_text: str | None
    include_unsubscribed: bool
    recipient_data_html_encoded: bool
    track_opens: bool | None
    track_clicks: bool | None
    """None: as the account has set it."""
    secret_values: frozenset[str]
    """Names of wildcard values that are stored encrypted, in lower case and without `#`."""
    recipients: tuple[RecipientDraft, ...]
    attachments: tuple[AttachmentDraft, ...]
