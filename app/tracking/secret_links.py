"""Secret links: links that seem to contain a secret, such as one that resets a password. Pure; linear in the URL.

A tracked link is stored, sent to webhooks, shown in timelines, and redirected by this service. A link that grants
access is exempt, unless the request itself asks for click tracking (docs/tracking.md#secret-links).
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

NAMES = frozenset(
    (
        *(
            "access",
            "apikey",
            "assertion",
            "auth",
            "authorization",
            "code",
            "credential",
            "credentials",
            "hash",
            "hmac",
        ),
        *("invitation", "invite", "jwt", "key", "login", "magic", "nonce", "oobcode", "otp", "passcode", "passphrase"),
        *("passwd", "password", "pin", "pwd", "reset", "saml", "samlresponse", "secret", "session", "sessionid", "sid"),
        *("sig", "sign", "signature", "ticket", "token", "verification", "verify"),
    )
)
"""Words that mark a parameter as secret if its name contains one: `reset_token`, `inviteCode`, `X-Amz-Signature`."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LETTERS_AND_DIGITS = re.compile(r"[A-Za-z0-9]{20,}")
_WITH_MARKS = re.compile(r"[A-Za-z0-9_\-]{20,}")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_KINDS = tuple(re.compile(kind) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
_SEPARATOR = re.compile("[&;]")


def has_secret(url: str) -> bool:
    """Whether a parameter of the query, or of the fragment, looks like a secret."""
    _, found, rest = url.partition("?")
    if not found:
        _, found, rest = url.partition("#")
    return bool(found) and any(_is_secret(part) for part in _SEPARATOR.split(rest.replace("#", "&")))


def exempt_none(_url: str) -> bool:
    """For sends that track all links."""
    return False


def _is_secret(part: str) -> bool:
    name, equals, value = part.partition("=")
    if equals and value and not NAMES.isdisjoint(_words(unquote_plus(name))):
        return True
    return _looks_random(unquote_plus(value if equals else part))


def _words(name: str) -> list[str]:
    """The words of a name, however they are joined, and the whole name."""
    return [*(word.lower() for word in _WORD.findall(name)), name.lower()]


def _looks_random(value: str) -> bool:
    """Whether the value contains a UUID, a run of 20 that mixes letters and digits, or one of 20 with capitals, small
    letters and digits, including `-` and `_`. No words of a language look like that."""
    if _UUID.search(value):
        return True
    both = (found[0] for found in _LETTERS_AND_DIGITS.finditer(value))
    if any(_KINDS[2].search(run) and not run.isdigit() for run in both):
        return True
    return any(all(kind.search(found[0]) for kind in _KINDS) for found in _WITH_MARKS.finditer(value))
