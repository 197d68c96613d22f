"""Looking DNS records up, all of them within one deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from dns.exception import DNSException
from dns.rdtypes.txtbase import TXTBase
from dns.resolver import NXDOMAIN, Answer, NoAnswer, Resolver

from app.settings import Settings

QUERY_SECONDS = 10.0
"""For one query, all attempts together."""

LookUp = Callable[[str, str], Sequence[str]]
"""Returns the texts of the records of a name and type (`TXT`, `MX`, `CNAME`, `A` or `AAAA`); raises `DNSException` if
there is no answer."""


class NoTime(DNSException):
    """The lookups before have taken all of the time."""


def look_up_with(settings: Settings, seconds: float) -> LookUp:
    """A lookup that queries the name server of DNS_RESOLVER, else those of the system, for so many seconds in all."""
    resolver = Resolver(configure=not settings.dns_resolver)
    if settings.dns_resolver:
        address, _, port = settings.dns_resolver.rpartition(":")
        resolver.nameservers, resolver.port = [address.strip("[]")], int(port)
    deadline = time.monotonic() + seconds

    def look_up(name: str, type_: str) -> list[str]:
        left = deadline - time.monotonic()
        if left <= 0:
            raise NoTime(f"no answer within the {seconds:g} seconds for all records")  # type: ignore[no-untyped-call]
        try:
            answer = resolver.resolve(name, type_, lifetime=min(QUERY_SECONDS, left), search=False)
        except (NXDOMAIN, NoAnswer):
            return []
        return _texts(answer)

    return look_up


def _texts(answer: Answer) -> list[str]:
    """The texts of the records; the strings of one are concatenated (RFC 7208, 3.3)."""
    return [
        b"".join(record.strings).decode("utf-8", "replace") if isinstance(record, TXTBase) else str(record)
        for record in answer
    ]
