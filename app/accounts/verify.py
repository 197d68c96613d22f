"""Verifying the DNS records of a sending domain: whether they are published and correct.

A finding is `right`, `missing`, `wrong`, or `unknown` if the name servers gave no answer, because an outage says
nothing about a record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dns.exception import DNSException

from app.accounts.dns_records import Record

ONLY_VERSION = ("dmarc", "dmarc_reports", "tls_reports")
"""Purposes of records whose content is up to the owner of the domain."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What the DNS has in place of a record."""

    purpose: str
    name: str
    type: str
    state: str
    found: Sequence[str]

    def stored(self) -> dict[str, Any]:
        """The form in which it is stored with the domain."""
        return {
            "purpose": self.purpose,
            "name": self.name,
            "type": self.type,
            "state": self.state,
            "found": list(self.found),
        }


def find(record: Record, look_up: Callable[[str, str], Sequence[str]]) -> Finding:
    """Looks one record up, by a function such as `app.network.dns` has."""
    place = (record.purpose, record.name, record.type)
    try:
        texts = [text for text in look_up(record.name, record.type) if _is_of_kind(record, text)]
    except DNSException as error:
        return Finding(*place, "unknown", [str(error)])
    if not texts:
        return Finding(*place, "missing", [])
    return Finding(*place, "right" if _is_right(record, texts) else "wrong", texts)


def _version(text: str) -> str:
    return text.lower().partition(";")[0].partition(" ")[0]


def _is_of_kind(record: Record, text: str) -> bool:
    """Whether a text is meant as this record: a name may have texts other than SPF and DMARC, a DKIM selector may
    not."""
    return record.type != "TXT" or record.purpose == "dkim" or _version(text) == _version(record.value)


def _is_right(record: Record, texts: Sequence[str]) -> bool:
    """Two SPF records are an error for every receiver (RFC 7208, 4.5), and so are two under one DKIM selector."""
    if record.type != "TXT":
        return _host(record.value) in map(_host, texts)
    if len(texts) != 1:
        return False
    if record.purpose == "dkim":
        return _public_key(texts[0]) == _public_key(record.value)
    if record.purpose in ONLY_VERSION:
        return True
    wanted = record.value.lower().split()[1]
    terms = texts[0].lower().split()[1:]
    return any(term.removeprefix("+") == wanted for term in terms)


def _host(text: str) -> str:
    """The host or address that a record names, without the priority of an MX."""
    return text.rsplit(maxsplit=1)[-1].rstrip(".").lower()


def _public_key(text: str) -> str:
    """The `p=` tag of a DKIM record, without white space."""
    tags = (tag.partition("=") for tag in text.split(";"))
    return next(("".join(value.split()) for name, _, value in tags if name.strip() == "p"), "")
