"""What a permanent refusal is about: the address, which is then blocked, or anything else, which blocks nobody
(docs/delivery.md#what-blocks-an-address). Pure; no database.

The RFC 3463 code says so, which the reply or its reporter gives; without one the words of the reply. They are read with
care: a relay that is set up wrongly refuses every address, and must not block them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from app.transports.base import DeliveryResult, Outcome

CODES_OF_THE_ADDRESS = frozenset({"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"})
"""No such mailbox, no such domain, no valid address, moved away, a domain without mail, a disabled mailbox."""
MAX_REPLY_LENGTH = 1000
"""Characters that are read of a reply: it is a stranger's text."""


def _phrases(words: str) -> tuple[str, ...]:
    """Words and phrases with commas between them."""
    return tuple(" ".join(phrase.split()) for phrase in words.split(","))


MISSING_STATES = _phrases(
    """
    unknown, is unknown, not known, is not known, not recognized, is not recognized, not found, was not found,
    is not found, could not be found, cannot be found, can not be found, does not exist, do not exist, doesnt
    exist, dont exist, did not exist, not exist, not exists, no longer exists, nonexistent, non existent, is
    nonexistent, that you tried to reach does not exist, invalid, is invalid, not valid, is not valid, no longer
    valid, is no longer valid
    """
)
MISSING_NOUNS = _phrases("user, username, mailbox, recipient, account, address, addressee, inbox, alias, domain")
"""What does not exist, in words: such a noun followed by one of `MISSING_STATES`."""
CLOSED_STATES = _phrases(
    """
    disabled, is disabled, has been disabled, inactive, is inactive, not active, is not active, deactivated, is
    deactivated, has been deactivated, suspended, is suspended, has been suspended, unavailable, is unavailable,
    not available, is not available, no longer available, is no longer available, closed, is closed, has been
    closed, no longer in use, is no longer in use, terminated, deleted, has been deleted, removed, has been
    removed, has moved
    """
)
CLOSED_NOUNS = _phrases("mailbox, inbox, recipient, addressee")
"""What takes no mail any more, in words: such a noun followed by one of `CLOSED_STATES`. Not a user, an account or a
domain: those may be the sender's own."""
ADDRESS_PHRASES = _phrases(
    """
    unknown user, unknown recipient, unknown mailbox, unknown address, unknown account, unknown email address,
    unknown local part, unknown or illegal alias, unknown domain, host unknown, no such user, no such mailbox,
    no such recipient, no such address, no such account, no such person, no such email address, no such local
    user, no such customer, no such domain, no such alias, no mailbox, no mail box, no user by that name, no
    account by that name, not a valid user, not a valid mailbox, not a valid recipient, not a valid address, not
    a known user, not a valid email address, not a local user, not a local mailbox, not our customer, user not
    local, invalid recipient, invalid recipients, invalid mailbox, invalid user, invalid address, invalid email
    address, nonexistent user, nonexistent mailbox, non existent user, non existent mailbox, bad destination
    mailbox, user doesnt have a, doesnt have an account, does not have an account, this account has been
    disabled or discontinued, domain does not accept mail, has null mx, not listed in public name, destinataire
    inconnu, destinataire invalide, utilisateur inconnu, empfänger unbekannt, benutzer unbekannt, unbekannter
    empfänger, usuario desconocido, usuario no existe, destinatario inesistente
    """
)
"""Phrases of the same meaning."""
OTHER_SUBJECTS = _phrases(
    r"""
    sender, senders, from address, from domain, mail from, return path, helo, ehlo, client host, hostname, ip,
    your account, your domain, your server, your host, your address, your email address, your system, relay(?!
    recipient table), relaying, relayed, ptr, reverse dns, authentication, unauthenticated, authenticate, spam,
    spammer, unsolicited, junk, phishing, virus, malware, content, attachment, reputation, policy, policies,
    prohibited, access denied, not authorized, not permitted, spf, dkim, dmarc, blacklist, blacklisted,
    blocklist, blocklisted, block list, dnsbl, rbl, listed(?! in public name), blocked, greylisted, greylisting,
    rate, limit, too many, quota, full, temporarily, timed out, loop
    """
)
"""Words about the sender, its permission to use this server, the content, a rule or the moment, as regular expressions.
Where one of them stands, the words above do not count: `sender verify failed: no such user`."""

_CODE = re.compile(r"(?<![\d.])[245]\.\d{1,3}\.\d{1,3}(?![\d.])")
_CODE_AT_START = re.compile(r"\s{0,9}(?:[45]\d\d[ -])?\s{0,9}#?([245]\.\d{1,3}\.\d{1,3})(?![\d.])")
_PUNCTUATION = str.maketrans(dict.fromkeys('<>()[]{}"`,;', " ") | dict.fromkeys("'’", None))
_NO_WORD = re.compile(r"[\W_]+")
_IS_ABOUT_THE_TEXT = re.compile(
    r"\b(?:stat:(?:REJECTD|DELETED|UNKNOWN|ACCEPTD)|receipt 16|rejected|refused)\b", re.IGNORECASE
)


def _any_of(phrases: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted(phrases, key=len, reverse=True))})"


_MISSING, _CLOSED = (
    f"{_any_of(nouns)} {_any_of(statements)}"
    for nouns, statements in ((MISSING_NOUNS, MISSING_STATES), (CLOSED_NOUNS, CLOSED_STATES))
)
_IS_ABOUT_ADDRESS = re.compile(rf"\b{_any_of([*ADDRESS_PHRASES, _MISSING, _CLOSED])}\b")
_IS_ABOUT_OTHERS = re.compile(rf"\b{_any_of(OTHER_SUBJECTS)}\b")


def refuses_address(result: DeliveryResult) -> bool:
    """Whether the answer to an attempt is a permanent refusal of the mailbox or its domain."""
    if result.outcome is not Outcome.REFUSED or result.about_sender:
        return False
    return blocks_address(result.reply, result.status)


def blocks_address(reply: str, status: str | None) -> bool:
    """Whether a permanent refusal speaks of the mailbox or its domain. `status` is the RFC 3463 code that its reporter
    gives, be it the relay, a delivery status notification or an event of a relay's; `5.0.0` and its like count as none.

    The reply's own code, at its beginning, decides with that of the reporter: both must say so. Codes further behind
    may be quoted from another server, so that words about the sender or a rule outweigh them.
    """
    text = reply[:MAX_REPLY_LENGTH]
    reported = None if status is None or status.endswith(".0.0") else status
    if status_code := _CODE_AT_START.match(text):
        return {status_code[1], reported or status_code[1]} <= CODES_OF_THE_ADDRESS
    words = _words(text)
    if _IS_ABOUT_OTHERS.search(words):
        return False
    codes = {*_CODE.findall(text), *([reported] if reported else [])}
    return codes <= CODES_OF_THE_ADDRESS if codes else _IS_ABOUT_ADDRESS.search(words) is not None


def blocks_number(receipt: str) -> bool:
    """Whether the receipt of a text message that was not delivered speaks of its number. It does unless it says that
    the message was refused or deleted, which a gateway does for its sender, its content or the account, or that nobody
    knows what became of it."""
    return _IS_ABOUT_THE_TEXT.search(receipt[:MAX_REPLY_LENGTH]) is None


def _words(text: str) -> str:
    """The words of the text in lower case, with one space between them, and `address` in place of each address. Links
    are left out."""
    parts = ("address" if "@" in part else part for part in text.lower().translate(_PUNCTUATION).split())
    return _NO_WORD.sub(" ", " ".join(part for part in parts if "://" not in part))
