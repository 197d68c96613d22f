"""The DNS records that the owner of a sending domain publishes, and verifying them (docs/deliverability.md)."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dns.exception import DNSException

from app.db.models import DkimKey, Domain
from app.network.lookup import is_address
from app.settings import Settings
from app.transports.email.dkim import record_name, record_value

MAX_STRING_LENGTH = 255
"""Characters of one string of a TXT record; a longer text is written as several."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `purpose` is `spf`, `dkim`, `dmarc`, `dmarc_reports`, `tls_reports`, `tracking` or `return_path`."""

    purpose: str
    name: str
    type: str
    value: str

    def zone_line(self) -> str:
        """The line of a zone file."""
        if self.type != "TXT":
            return f"{self.name}. IN {self.type} {self.value}"
        pieces = [
            self.value[start : start + MAX_STRING_LENGTH] for start in range(0, len(self.value), MAX_STRING_LENGTH)
        ]
        return f"{self.name}. IN TXT " + " ".join(f'"{piece}"' for piece in pieces)


def records_to_publish(
    settings: Settings, domain: Domain, keys: Sequence[DkimKey], report_address: str | None = None
) -> list[Record]:
    """SPF, a DKIM record per key, a suggested DMARC policy, and the records of the hosts of the domain and of the
    address to which reports about it are sent.

    The domain counts as configured once SPF and one of the DKIM records are correct; the others improve deliverability.
    """
    name = domain.name
    signing = [
        Record("dkim", record_name(name, key.selector), "TXT", record_value(key.algorithm, key.public_key))
        for key in keys
    ]
    return [
        Record("spf", name, "TXT", f"v=spf1 {spf_mechanism(settings)} ~all"),
        *signing,
        Record("dmarc", f"_dmarc.{name}", "TXT", f"v=DMARC1; p=none{_reported_to(report_address)}"),
        *_report_records(name, report_address),
        *_tracking_records(settings, domain.tracking_host),
        *_return_path_records(settings, domain.return_path_host or settings.bounce_domain),
    ]


def _reported_to(address: str | None) -> str:
    return f"; rua=mailto:{address}" if address else ""


def _report_records(domain: str, address: str | None) -> list[Record]:
    """The record by which the other domain agrees to get DMARC reports (RFC 7489, 7.1), and the one that asks for TLS
    reports (RFC 8460, 3)."""
    if not address:
        return []
    host = address.rpartition("@")[2]
    is_own = host == domain or host.endswith(f".{domain}")
    agreement = [] if is_own else [Record("dmarc_reports", f"{domain}._report._dmarc.{host}", "TXT", "v=DMARC1")]
    return [*agreement, Record("tls_reports", f"_smtp._tls.{domain}", "TXT", f"v=TLSRPTv1{_reported_to(address)}")]


def _tracking_records(settings: Settings, tracking_host: str | None) -> list[Record]:
    """The record by which the tracking host leads to the host of PUBLIC_URL."""
    if not tracking_host:
        return []
    host = urlsplit(settings.public_url).hostname or ""
    if is_address(host):
        return [Record("tracking", tracking_host, "AAAA" if ":" in host else "A", host)]
    return [Record("tracking", tracking_host, "CNAME", f"{host}.")]


def _return_path_records(settings: Settings, return_path_host: str) -> list[Record]:
    """The records of the domain's return-path host, or of BOUNCE_DOMAIN, which the other domains share: its MX is this
    host, which receives the reports, and receivers check its SPF record. Without either, reports go to the sending
    domain's own MX."""
    if not return_path_host:
        return []
    records = [Record("return_path", return_path_host, "TXT", f"v=spf1 {spf_mechanism(settings)} ~all")]
    host = urlsplit(settings.public_url).hostname or ""
    if not is_address(host):
        records.append(Record("return_path", return_path_host, "MX", f"10 {host}."))
    return records


def spf_mechanism(settings: Settings) -> str:
    """The mechanism that the SPF record of a sending domain must contain (RFC 7208, 5)."""
    if settings.spf_include:
        return f"include:{settings.spf_include.lower()}"
    host = urlsplit(settings.public_url).hostname or ""
    return f"ip{ipaddress.ip_address(host).version}:{host}" if is_address(host) else f"include:{host}"


PURPOSES_WITH_OWN_CONTENT = ("dmarc", "dmarc_reports", "tls_reports")
"""Purposes of records whose content is up to the owner of the domain."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What the DNS has in place of a record."""

    purpose: str
    name: str
    type: str
    state: str
    texts: Sequence[str]

    def stored(self) -> dict[str, Any]:
        """The form in which it is stored with the domain."""
        return {
            "purpose": self.purpose,
            "name": self.name,
            "type": self.type,
            "state": self.state,
            "found": list(self.texts),
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
    if record.purpose in PURPOSES_WITH_OWN_CONTENT:
        return True
    mechanism = record.value.lower().split()[1]
    terms = texts[0].lower().split()[1:]
    return any(term.removeprefix("+") == mechanism for term in terms)


def _host(text: str) -> str:
    """The host or address that a record names, without the priority of an MX."""
    return text.rsplit(maxsplit=1)[-1].rstrip(".").lower()


def _public_key(text: str) -> str:
    """The `p=` tag of a DKIM record, without white space."""
    tags = (tag.partition("=") for tag in text.split(";"))
    return next(("".join(value.split()) for name, _, value in tags if name.strip() == "p"), "")
