"""The states of recipients, and the reasons for which one gets nothing. Pure."""

from __future__ import annotations

import enum
from typing import NamedTuple


class RecipientState(enum.StrEnum):
    """State of one recipient, in the order of its life."""

    SCHEDULED = "scheduled"
    """Accepted with a later `send_at`, and queued then (docs/scheduling.md)."""
    QUEUED = "queued"
    SENDING = "sending"
    UNCERTAIN = "uncertain"
    """The message may have arrived: resolved once its `due_time` has passed."""
    HELD = "held"
    """Restored from a backup, and maybe sent since that was made: an operator releases or drops it."""
    PAUSED = "paused"
    """Put aside, because its account, its list or the domain of its address is paused."""
    SENT = "sent"
    """A text message that the gateway has accepted and no receipt has confirmed."""
    DELIVERED = "delivered"
    BOUNCED = "bounced"
    FAILED = "failed"


STATES_SHOWN_AS_QUEUED = (RecipientState.HELD, RecipientState.PAUSED)
"""Clients see `queued` as the state of such a recipient: it is accepted, and not sent yet."""
SHOWN_STATES = tuple(state for state in RecipientState if state not in STATES_SHOWN_AS_QUEUED)
"""The states that clients see."""
UNSETTLED_STATES = (
    *(RecipientState.SCHEDULED, RecipientState.QUEUED, RecipientState.SENDING, RecipientState.UNCERTAIN),
    *STATES_SHOWN_AS_QUEUED,
)
"""States of a recipient that has an entry in the send queue; any other is an outcome."""


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
    """The secret values of the recipient cannot be decrypted, or are gone (docs/secret-values.md)."""

    REJECTED = "rejected"
    """The gateway refused the text message."""
    EXPIRED = "expired"
    """The text message was deferred until the end of the retry period."""

    CANCELLED = "cancelled"
    """The sender cancelled the message before it left (docs/scheduling.md#cancelling)."""
    DROPPED = "dropped"
    """The message was held after a restore, and an operator decided not to send it."""
    FORGOTTEN = "forgotten"
    """The message waited when its recipient was forgotten (docs/privacy.md#forgetting)."""


UNRETRYABLE_REASONS = (FailReason.INVALID_CONTACT_ID, FailReason.CONTACT_DELETED, FailReason.FORGOTTEN)
"""Reasons that no retry can change: there is no address to send to."""


class WaitReason(enum.StrEnum):
    """Why a message is not handed over now."""

    PAUSE = "pause"
    DOMAIN_BACKOFF = "domain_backoff"
    OWNER_UNCONFIRMED = "owner_unconfirmed"
    DOMAIN_MISSING = "domain_missing"
    DOMAIN_UNVERIFIED = "domain_unverified"
    """The domain of the sender, or of the blind copy, is not verified."""
    SENDER_MISSING = "sender_missing"
    """The sender of a text message is not approved any more, or only for another list."""
    RENDER_QUOTA = "render_quota"
    """Other messages of the send are being rendered, and there may not be enough of its limit left."""
    RATE_LIMIT = "rate_limit"
    """The sender of text messages has reached its rate."""
    RELAY = "relay"
    """A relay refuses everything of the account."""
    NO_TRANSPORT = "no_transport"
    """No transport of the message's route is in use."""
    TRANSPORT = "transport"
    """The transport has no room, or has reached its rate."""


class Postponement(NamedTuple):
    """How a message waits for a reason: until when, in words, and whether that ends an attempt."""

    waits: str
    text: str | None = None
    """The text for clients of the deferral that ends the attempt. None if the message is deferred without an attempt,
    which is counted under the name of the reason (docs/monitoring/metrics.md#all-metrics)."""
    status: str | None = None
    """The RFC 3463 code of that deferral."""


NOT_PERMITTED_PREFIX = "not sent: "
"""How the texts begin of what a send needed when it was accepted, and lacks when it is to leave."""
_NEXT, _UNAUTHORIZED = "for its next attempt", "4.7.1"
POSTPONEMENTS = {
    WaitReason.PAUSE: Postponement("until the pause ends"),
    WaitReason.DOMAIN_BACKOFF: Postponement("until the back-off ends"),
    WaitReason.OWNER_UNCONFIRMED: Postponement(
        _NEXT, f"{NOT_PERMITTED_PREFIX}the owner of the account has not confirmed the address", _UNAUTHORIZED
    ),
    WaitReason.DOMAIN_MISSING: Postponement(
        _NEXT, f"{NOT_PERMITTED_PREFIX}the account has no sending domain {{name}}", _UNAUTHORIZED
    ),
    WaitReason.DOMAIN_UNVERIFIED: Postponement(
        _NEXT, f"{NOT_PERMITTED_PREFIX}the sending domain {{name}} is not verified", _UNAUTHORIZED
    ),
    WaitReason.SENDER_MISSING: Postponement(
        _NEXT, f"{NOT_PERMITTED_PREFIX}{{name}} is no approved sender for this message", _UNAUTHORIZED
    ),
    WaitReason.RENDER_QUOTA: Postponement("half a second"),
    WaitReason.RATE_LIMIT: Postponement("for its turn"),
    WaitReason.RELAY: Postponement("for the next try"),
    WaitReason.NO_TRANSPORT: Postponement(_NEXT, "no transport for this message is in use", "4.3.5"),
    WaitReason.TRANSPORT: Postponement("for its turn"),
}
"""All reasons for which the service itself puts a message off, in the order in which delivery looks for them
(app/sends/delivery/postponed.py); the table of docs/waiting.md."""


class MissingRequirement(NamedTuple):
    """What a send needed when it was accepted, and lacks now. `name` is that of the domain or the sender."""

    reason: WaitReason
    name: str = ""

    @classmethod
    def for_domain(cls, name: str, verified: bool | None) -> MissingRequirement:
        """A domain that is not verified. `verified` is None if the account does not have it."""
        return cls(WaitReason.DOMAIN_MISSING if verified is None else WaitReason.DOMAIN_UNVERIFIED, name)
