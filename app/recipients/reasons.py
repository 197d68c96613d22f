"""Reasons for which a recipient fails, as its row and the event `failed` name them
(docs/delivery.md#skipped-recipients). Pure."""

from __future__ import annotations

import enum


class FailReason(enum.StrEnum):
    """The `fail_reason` of a recipient. Recipients with one of the first six are skipped: no message is built for
    them."""

    INVALID_CONTACT_ID = "invalid_contact_id"
    """Found when the send was accepted: the contact was not in the list."""
    CONTACT_DELETED = "contact_deleted"
    CONTACT_INACTIVE = "contact_inactive"
    ADDRESS_MISSING = "address_missing"
    BLOCKED = "blocked"
    UNSUBSCRIBED = "unsubscribed"

    TOO_LARGE = "too_large"
    """The message would exceed a size limit."""
    CONTENT_MISSING = "content_missing"
    """The text message is empty after personalisation."""
    UNREADABLE_VALUES = "secret_values_unreadable"
    """Its secret values cannot be decrypted, or are gone (docs/sending.md#secret-values)."""

    REJECTED = "rejected"
    """The gateway refused the text message."""
    EXPIRED = "expired"
    """The text message was deferred until the end of the retry period."""

    DROPPED = "dropped"
    """It was held after a restore, and an operator decided not to send it."""
    FORGOTTEN = "forgotten"
    """It waited when its recipient was forgotten (docs/privacy.md#forgetting)."""


NOT_RETRYABLE = (FailReason.INVALID_CONTACT_ID, FailReason.CONTACT_DELETED, FailReason.FORGOTTEN)
"""Reasons that no retry can change: there is no address to send to."""
