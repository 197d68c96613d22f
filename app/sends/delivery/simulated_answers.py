"""What a magic address answers to a delivery attempt, as a relay or a gateway would (docs/testing.md#magic-addresses).
Pure."""

from __future__ import annotations

import math

from app.inbox.magic import Magic, magic_of
from app.sends.delivery.claim import ClaimedRecipient
from app.transports.base import DeliveryResult

SLOW_DELAYS = (1.0, 2.0)
"""Seconds until the next attempt after each deferral; then the message is accepted."""
NEVER_AGAIN = math.inf

# Not of the codes that concern a whole domain: further mail to magic addresses is not backed off.
_DEFERRED_MAIL = DeliveryResult.deferred("451 4.3.2 simulated: try again later", "4.3.2")
_DEFERRED_TEXT = DeliveryResult.deferred("simulated: try again later")
_ANSWERS = {
    Magic.BOUNCE: DeliveryResult.refused("550 5.1.1 simulated: no such user", "5.1.1"),
    Magic.REJECTED: DeliveryResult.refused("simulated: the number is invalid"),
    Magic.EXPIRED: _DEFERRED_TEXT,
}


def simulated_answer(magic: Magic | None, message_type: str, attempt: int) -> DeliveryResult | None:
    """The answer to this attempt; None if the message is accepted."""
    if magic is Magic.SLOW:
        deferred = _DEFERRED_TEXT if message_type == "sms" else _DEFERRED_MAIL
        return deferred if attempt <= len(SLOW_DELAYS) else None
    return _ANSWERS.get(magic) if magic else None


def simulated_delay(recipient: ClaimedRecipient, address: str) -> float | None:
    """Seconds until the next attempt at a magic address that defers this one; infinite if there is none. None if the
    retry rules apply."""
    magic = magic_of(recipient.type, address)
    if magic is Magic.SLOW and recipient.attempts <= len(SLOW_DELAYS):
        return SLOW_DELAYS[recipient.attempts - 1]
    return NEVER_AGAIN if magic is Magic.EXPIRED else None
