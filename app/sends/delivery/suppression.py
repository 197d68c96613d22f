"""Who is not sent to, and why. Pure (docs/delivery.md#skipped-recipients)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from app.addresses import email_key
from app.sends.delivery.claim import ClaimedRecipient

INVALID_CONTACT_ID = "invalid_contact_id"
"""Stands in a recipient's `reason` from acceptance on when its contact_id was not in the list."""


@dataclass(frozen=True, slots=True)
class ContactState:
    """What delivery needs to know of a contact: who may not be written to, and what wildcards tell."""

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


class Target(NamedTuple):
    """An address of an account; `kind` is `email` or `mobile`, emails are in the form in which they are compared."""

    account_id: int
    kind: str
    address: str


@dataclass(frozen=True, slots=True)
class Suppressions:
    """Addresses that are not to be sent to; an unsubscribed one under its list, or account-wide (None)."""

    blocked: frozenset[Target]
    unsubscribed: frozenset[tuple[Target, int | None]]


def destination(recipient: ClaimedRecipient, contact: ContactState | None) -> str | None:
    """The address that the recipient was given, else the one that its contact has now."""
    if recipient.type == "email":
        return recipient.email or (contact.email if contact else None)
    return recipient.mobile or (contact.mobile if contact else None)


def target(recipient: ClaimedRecipient, contact: ContactState | None) -> Target | None:
    """The destination as the suppression tables have it."""
    address = destination(recipient, contact)
    if not address:
        return None
    if recipient.type == "email":
        return Target(recipient.account_id, "email", email_key(address))
    return Target(recipient.account_id, "mobile", address)


def skip_reason(
    recipient: ClaimedRecipient, contact: ContactState | None, suppressions: Suppressions, *, include_unsubscribed: bool
) -> str | None:
    """Why the recipient is skipped: the first reason that holds, in this order. None when it is to be sent to."""
    if recipient.reason == INVALID_CONTACT_ID:
        return INVALID_CONTACT_ID
    if recipient.contact_id is not None and contact is None:
        return "contact_deleted"
    if contact is not None and not contact.is_active:
        return "contact_inactive"
    to = target(recipient, contact)
    if to is None:
        return "address_missing"
    if to in suppressions.blocked:
        return "blocked"
    if not include_unsubscribed and _is_unsubscribed(recipient, contact, to, suppressions):
        return "unsubscribed"
    return None


def _is_unsubscribed(
    recipient: ClaimedRecipient, contact: ContactState | None, to: Target, suppressions: Suppressions
) -> bool:
    if contact is not None and not (contact.subscribed_email if to.kind == "email" else contact.subscribed_mobile):
        return True
    entries = suppressions.unsubscribed
    return (to, None) in entries or (recipient.list_id is not None and (to, recipient.list_id) in entries)
