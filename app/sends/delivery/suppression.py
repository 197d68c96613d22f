"""The suppression check: which recipients are skipped, and for which reason (docs/delivery.md#skipped-recipients).
Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.addresses import ADDRESS_KIND_BY_TYPE, AccountAddress
from app.contacts.row import ContactRow
from app.inbox.magic import magic_of
from app.recipients.reasons import FailReason
from app.sends.delivery.claim import ClaimedRecipient


@dataclass(frozen=True, slots=True)
class Suppressions:
    """Suppressed addresses; an unsubscribed one with its list, or with None for the whole account."""

    blocked: frozenset[AccountAddress]
    unsubscribed: frozenset[tuple[AccountAddress, int | None]]


def delivery_address(recipient: ClaimedRecipient, contact: ContactRow | None) -> str | None:
    """The address of the request, else the current one of the contact."""
    if recipient.type == "email":
        return recipient.email or (contact.email if contact else None)
    return recipient.mobile or (contact.mobile if contact else None)


def suppression_key(recipient: ClaimedRecipient, contact: ContactRow | None) -> AccountAddress | None:
    """The delivery address in the form in which the suppression tables store it."""
    address = delivery_address(recipient, contact)
    return AccountAddress.of(recipient.account_id, ADDRESS_KIND_BY_TYPE[recipient.type], address) if address else None


def skip_reason(
    recipient: ClaimedRecipient,
    contact: ContactRow | None,
    key: AccountAddress | None,
    suppressions: Suppressions,
    *,
    include_unsubscribed: bool,
    is_test: bool,
) -> FailReason | None:
    """The reason for which the recipient is skipped, the first that applies in this order; None if it is sent to. `key`
    is its `suppression_key`. A test sends to a magic address again and again, whatever that has simulated."""
    if recipient.reason == FailReason.INVALID_CONTACT_ID:
        return FailReason.INVALID_CONTACT_ID
    if recipient.reason == FailReason.UNREADABLE_VALUES:
        return FailReason.UNREADABLE_VALUES
    if recipient.contact_id is not None and contact is None:
        return FailReason.CONTACT_DELETED
    if contact is not None and not contact.is_active:
        return FailReason.CONTACT_INACTIVE
    if key is None:
        return FailReason.ADDRESS_MISSING
    if is_test and magic_of(recipient.type, key.key):
        return None
    if key in suppressions.blocked:
        return FailReason.BLOCKED
    if not include_unsubscribed and _is_unsubscribed(recipient, contact, key, suppressions):
        return FailReason.UNSUBSCRIBED
    return None


def _is_unsubscribed(
    recipient: ClaimedRecipient, contact: ContactRow | None, key: AccountAddress, suppressions: Suppressions
) -> bool:
    if contact is not None and not (contact.subscribed_email if key.kind == "email" else contact.subscribed_mobile):
        return True
    entries = suppressions.unsubscribed
    return (key, None) in entries or (recipient.list_id is not None and (key, recipient.list_id) in entries)
