"""Header fields that a client may add to its mails (docs/mail-headers.md). Pure.

All others are refused by their names: they are those of the service, or say where a mail goes and what it consists of.
"""

from __future__ import annotations

import re

MAX_HEADERS = 20
MAX_HEADER_NAME_LENGTH = 50
MAX_HEADER_LINE = 998
"""Characters of a field with its name, as of a line of a mail (RFC 5322)."""
MESSAGE_IDS = ("in-reply-to", "references")
CHOICES = {
    "auto-submitted": ("no", "auto-generated", "auto-replied", "auto-notified"),
    "importance": ("high", "normal", "low"),
}
ACCEPTED_NAMES = "X-…, In-Reply-To, References, Auto-Submitted and Importance"
INSTRUCTIONS = (
    *("x-mailgun-", "x-pm-", "x-msys-", "x-smtpapi", "x-ses-", "x-mc-", "x-mj-", "x-sib-", "x-mailin-", "x-tms-"),
)
"""How names begin by which relays, or the service itself, take instructions: they are the operator's."""

_NAME = re.compile(r"[A-Za-z0-9-]+")
_MESSAGE_ID = re.compile(r"<[!-;=?-~]+>")


def is_accepted(name: str) -> bool:
    """Whether a client may add a field of that name."""
    lower = name.lower()
    if lower in MESSAGE_IDS or lower in CHOICES:
        return True
    is_own = lower.startswith("x-") and len(name) > len("x-") and _NAME.fullmatch(name) is not None
    return is_own and len(name) <= MAX_HEADER_NAME_LENGTH and not lower.startswith(INSTRUCTIONS)


def expected_value(name: str, value: str) -> str | None:
    """What the value of an accepted field should be, in words; None if it is that."""
    lower = name.lower()
    if lower in CHOICES:
        return None if value.lower() in CHOICES[lower] else f"one of: {', '.join(CHOICES[lower])}"
    if lower in MESSAGE_IDS and not all(map(_is_message_id, value.split(" "))):
        return "message ids in angle brackets, such as <id@acme.example>, with a space between two"
    return None


def _is_message_id(text: str) -> bool:
    """Whether the text is a message id. An encoded word in it would be decoded by receivers."""
    return _MESSAGE_ID.fullmatch(text) is not None and text.count("@") == 1 and "=?" not in text
