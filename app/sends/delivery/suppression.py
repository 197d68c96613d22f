"""The suppression check: which recipients are skipped, and for which reason (docs/delivery.md#skipped-recipients).
Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from app.addresses import email_key
from app.sends.delivery.claim import ClaimedRecipient

INVALID_CONTACT_ID = "invalid_contact_id"
"""The `reason` of a recipient whose contact_id was not in the list when the send was accepted."""


@dataclass(frozen=True, slots=True)
class ContactState:
    """The columns of a contact that the suppression check and the wildcards need."""

    id: int
    account_id: int
    list_id: int
    email: str | None
    mobile: str | None
    subscribed_email: bool
    subscribed_mobile: bool
    is_active: bool
    double_opt_in: bool
    double_opt_in_time: datetime | None
    creation_time: datetime
    last_modified_time: datetime
    values: dict[str, Any]
    blocked_email: bool
    blocked_mobile: bool


class SuppressionKey(NamedTuple):
    """An address as the suppression tables store it; `kind` is `email` or `mobile`, emails are normalised."""

    account_id: int
    kind: str
    address: str


@dataclass(frozen=True, slots=True)
class Suppressions:
    """Suppressed addresses; an unsubscribed one with its list, or with None for the whole account."""

    blocked: frozenset[SuppressionKey]
    unsubscribed: frozenset[tuple[SuppressionKey, int | None]]


def delivery_address(recipient: ClaimedRecipient, contact: ContactState | None) -> str | None:
    """The address of the request, else the current one of the contact."""
    if recipient.type == "email":
        return recipient.email or (contact.email if contact else None)
    return recipient.mobile or (contact.mobile if contact else None)


def suppression_key(recipient: ClaimedRecipient, contact: ContactState | None) -> SuppressionKey | None:
    """The delivery address as a key of the suppression tables."""
    address = delivery_address(recipient, contact)
    if not address:
        return None
    if recipient.type == "email":
        return SuppressionKey(recipient.account_id, "email", email_key(address))
    return SuppressionKey(recipient.account_id, "mobile", address)


def skip_reason(
    recipient: ClaimedRecipient, contact: ContactState | None, suppressions: Suppressions, *, include_unsubscribed: bool
) -> str | None:
    """The reason for which the recipient is skipped, the first that applies in this order; None when it is sent to."""
    if recipient.reason == INVALID_CONTACT_ID:
        return INVALID_CONTACT_ID
    if recipient.contact_id is not None and contact is None:
        return "contact_deleted"
    if contact is not None and not contact.is_active:
        return "contact_inactive"
    key = suppression_key(recipient, contact)
    if key is None:
        return "address_missing"
    if key in suppressions.blocked:
        return "blocked"
    if not include_unsubscribed and _is_unsubscribed(recipient, contact, key, suppressions):
        return "unsubscribed"
    return None


def _is_unsubscribed(
    recipient: ClaimedRecipient, contact: ContactState | None, key: SuppressionKey, suppressions: Suppressions
) -> bool:
    if contact is not None and not (contact.subscribed_email if key.kind == "email" else contact.subscribed_mobile):
        return True
    entries = suppressions.unsubscribed
    return (key, None) in entries or (recipient.list_id is not None and (key, recipient.list_id) in entries)
