"""Magic addresses: what becomes of a message of a test key to one of them (docs/testing.md#magic-addresses). Pure.

Nobody can have such an address: the top-level domain `test` is reserved (RFC 2606), and the numbers are of a range that
Ofcom keeps for fiction.
"""

from __future__ import annotations

import enum

DOMAIN = "simulator.test"
SIMULATION_DELAY = 3
"""Seconds between the acceptance of a message and what happens to it: a machine is suspected of what happens sooner
(docs/tracking.md#machines)."""


class Magic(enum.StrEnum):
    """What is simulated. The values of mail are local parts of addresses."""

    BOUNCE = "bounce"
    LATE_BOUNCE = "late-bounce"
    SOFT_BOUNCE = "soft-bounce"
    COMPLAINT = "complaint"
    OPEN = "open"
    CLICK = "click"
    UNSUBSCRIBE = "unsubscribe"
    SLOW = "slow"
    REJECTED = "rejected"
    EXPIRED = "expired"
    ACKNOWLEDGED = "acknowledged"
    UNDELIVERED = "undelivered"
    STOP = "stop"
    UNREACHABLE = "unreachable"


EMAILS = {
    magic.value: magic
    for magic in (
        *(Magic.BOUNCE, Magic.LATE_BOUNCE, Magic.SOFT_BOUNCE, Magic.COMPLAINT, Magic.OPEN, Magic.CLICK),
        *(Magic.UNSUBSCRIBE, Magic.SLOW),
    )
}
MOBILES = {
    "447700900001": Magic.REJECTED,
    "447700900002": Magic.EXPIRED,
    "447700900003": Magic.ACKNOWLEDGED,
    "447700900004": Magic.UNDELIVERED,
    "447700900005": Magic.STOP,
    "447700900006": Magic.SLOW,
    "447700900007": Magic.UNREACHABLE,
}
SIMULATED_BY_ANSWER = frozenset((Magic.BOUNCE, Magic.SLOW, Magic.REJECTED, Magic.EXPIRED))
"""Simulated by the answer to the delivery attempt; the others happen to a message that was accepted."""


def magic_of(message_type: str, address: str) -> Magic | None:
    """What is simulated for messages to the address; None for an ordinary one."""
    if message_type == "sms":
        return MOBILES.get(address)
    local, _, domain = address.lower().rpartition("@")
    return EMAILS.get(local.partition("+")[0]) if domain == DOMAIN else None
