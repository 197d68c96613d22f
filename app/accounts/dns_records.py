"""The DNS records that the owner of a sending domain publishes, so that receivers accept its mail. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.db.models import DkimKey, Domain
from app.network.numbers import is_address
from app.settings import Settings
from app.transports.email.dkim import record_name, record_value

LONGEST_STRING = 255
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
        pieces = [self.value[start : start + LONGEST_STRING] for start in range(0, len(self.value), LONGEST_STRING)]
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
