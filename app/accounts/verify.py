"""Verifying the DNS records of a sending domain: whether they are published and correct.

A finding is `right`, `missing`, `wrong`, or `unknown` if the name servers gave no answer, because an outage says
nothing about a record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dns.exception import DNSException
from dns.rdtypes.txtbase import TXTBase
from dns.resolver import NXDOMAIN, Answer, NoAnswer, Resolver

from app.accounts.dns_records import Record
from app.settings import Settings

SECONDS = 10.0
"""For one query, all attempts together."""

ONLY_VERSION = ("dmarc", "dmarc_reports", "tls_reports")
"""Purposes of records whose content is up to the owner of the domain."""

LookUp = Callable[[str, str], Sequence[str]]
"""Returns the texts of the records of a name and type (`TXT`, `MX`, `CNAME`, `A` or `AAAA`); raises `DNSException` if
there is no answer."""


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


def look_up_with(settings: Settings) -> LookUp:
    """A lookup that queries the name server of DNS_RESOLVER, else those of the system."""
    resolver = Resolver(configure=not settings.dns_resolver)
    if settings.dns_resolver:
        address, _, port = settings.dns_resolver.rpartition(":")
        resolver.nameservers, resolver.port = [address.strip("[]")], int(port)

    def look_up(name: str, type_: str) -> list[str]:
        try:
            answer = resolver.resolve(name, type_, lifetime=SECONDS, search=False)
        except (NXDOMAIN, NoAnswer):
            return []
        return _texts(answer)

    return look_up


def _texts(answer: Answer) -> list[str]:
    """The texts of the records; the strings of one are concatenated (RFC 7208, 3.3)."""
    return [
        b"".join(one.strings).decode("utf-8", "replace") if isinstance(one, TXTBase) else str(one) for one in answer
    ]


def find(record: Record, look_up: LookUp) -> Finding:
    """Looks one record up."""
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
