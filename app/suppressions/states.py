"""The states of a suppressed address, and what people may say of it. Pure."""

from __future__ import annotations

UNSUBSCRIBED, BLOCKED = STATES = ("unsubscribed", "blocked")
MAX_REASON_LENGTH = 255
REASON_BY_HAND = "blocked by hand"
"""The reason of a block without another one."""
