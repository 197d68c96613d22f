"""The DNS records that the owner of a sending domain publishes, so that receivers accept its mail. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.db.models import DkimKey
from app.network.lookup import is_address
from app.settings import Settings
from app.transports.email.dkim import record_name, record_value

LONGEST_STRING = 255
"""Characters of one string of a TXT record; a longer text is written as several."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `purpose` is `spf`, `dkim`, `dmarc`, `dmarc_reports`, `tls_reports` or `return_path`."""

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
    settings: Settings, domain: str, keys: Sequence[DkimKey], report_address: str | None = None
) -> list[Record]:
    """SPF, a DKIM record per key, a suggested DMARC policy, and the records of the return path and of the address to
    which reports about the domain are sent.

    The domain counts as configured once SPF and one of the DKIM records are correct; the others improve deliverability.
    """
    signing = [
        Record("dkim", record_name(domain, key.selector), "TXT", record_value(key.algorithm, key.public_key))
        for key in keys
    ]
    return [
        Record("spf", domain, "TXT", f"v=spf1 {spf_mechanism(settings)} ~all"),
        *signing,
        Record("dmarc", f"_dmarc.{domain}", "TXT", f"v=DMARC1; p=none{_reported_to(report_address)}"),
        *_report_records(domain, report_address),
        *_return_path_records(settings),
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


def _return_path_records(settings: Settings) -> list[Record]:
    """The records of BOUNCE_DOMAIN, which all sending domains share: its MX is this host, which receives the reports,
    and receivers check its SPF record. Without BOUNCE_DOMAIN, reports go to the sending domain's own MX."""
    if not settings.bounce_domain:
        return []
    records = [Record("return_path", settings.bounce_domain, "TXT", f"v=spf1 {spf_mechanism(settings)} ~all")]
    host = urlsplit(settings.public_url).hostname or ""
    if not is_address(host):
        records.append(Record("return_path", settings.bounce_domain, "MX", f"10 {host}."))
    return records


def spf_mechanism(settings: Settings) -> str:
    """The mechanism that the SPF record of a sending domain must contain (RFC 7208, 5)."""
    if settings.spf_include:
        return f"include:{settings.spf_include.lower()}"
    host = urlsplit(settings.public_url).hostname or ""
    return f"ip{ipaddress.ip_address(host).version}:{host}" if is_address(host) else f"include:{host}"
