"""What a reason says in a few words: a code of ours, or the reply of a mail server by its RFC 3463 code. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from app.recipients.states import FailReason

MAX_LENGTH = 60
"""Characters of a reply without a code that is known."""
_REASONS: Mapping[str, str] = {
    FailReason.INVALID_CONTACT_ID: "contact was not in the list",
    FailReason.CONTACT_DELETED: "contact was deleted",
    FailReason.CONTACT_INACTIVE: "contact is not active",
    FailReason.ADDRESS_MISSING: "contact has no address",
    FailReason.BLOCKED: "address is blocked",
    FailReason.UNSUBSCRIBED: "address is unsubscribed",
    FailReason.TOO_LARGE: "message is too large",
    FailReason.CONTENT_MISSING: "text is empty",
    FailReason.UNREADABLE_VALUES: "secret values cannot be read",
    FailReason.REJECTED: "gateway refused it",
    FailReason.EXPIRED: "could not be delivered in time",
    FailReason.CANCELLED: "cancelled",
    FailReason.DROPPED: "dropped by an operator",
    FailReason.FORGOTTEN: "person was forgotten",
}
_DETAILS: Mapping[str, str] = {
    "1.1": "mailbox does not exist",
    "1.2": "domain does not exist",
    "1.3": "address is not valid",
    "1.6": "mailbox has moved",
    "1.8": "sender's domain does not exist",
    "1.10": "domain accepts no mail",
    "2.1": "mailbox is disabled",
    "2.2": "mailbox is full",
    "2.3": "too large for the mailbox",
    "3.2": "server accepts no mail now",
    "3.4": "message is too large",
    "4.1": "server did not answer",
    "4.4": "no server for the domain",
    "4.6": "mail loop",
    "4.7": "could not be delivered in time",
    "7.1": "refused by policy",
    "7.20": "DKIM signature is missing or wrong",
    "7.21": "DKIM signature is missing or wrong",
    "7.22": "DKIM signature does not fit the sender",
    "7.23": "SPF check failed",
    "7.24": "SPF check failed",
    "7.25": "reverse DNS is missing or wrong",
    "7.26": "sender is not authenticated",
    "7.27": "sender's domain accepts no mail",
    "7.28": "too many messages at once",
}
"""The second and third part of a code -> its meaning (RFC 3463, RFC 7372, RFC 7505 and the registry of IANA)."""
_SUBJECTS: Mapping[str, str] = {
    "1": "address was refused",
    "2": "mailbox was refused",
    "3": "server accepts no mail now",
    "4": "server could not be reached",
    "5": "server did not understand the request",
    "6": "content was refused",
    "7": "refused by policy",
}
"""The second part alone."""
_CODE = re.compile(r"\b[245]\d\d[ -]{1,2}[245]\.(\d{1,3})\.(\d{1,3})\b")
_REPLY_CODE = re.compile(r"\b[245]\d\d[ -]+")
_ADDRESS = re.compile(r"<?[^\s<>@]{1,64}@[^\s<>@,;]{1,255}>?:?")


def meaning_of(reason: str) -> str:
    """The reason in a few words, which are the same for all recipients with whom the same is wrong."""
    if reason in _REASONS:
        return _REASONS[reason]
    code = _CODE.search(reason)
    meaning = code and (_DETAILS.get(f"{code[1]}.{code[2]}") or _SUBJECTS.get(code[1]))
    return meaning or _shortened(reason)


def _shortened(reply: str) -> str:
    """The words of a reply without a known code: neither the code nor an address is among them."""
    words = " ".join(_ADDRESS.sub("", _REPLY_CODE.sub("", reply[:1000], count=1)).split())
    return words if len(words) <= MAX_LENGTH else f"{words[:MAX_LENGTH].rsplit(' ', 1)[0]}…"
