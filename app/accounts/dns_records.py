"""The DNS records of a sending domain: what its owner publishes, so that receivers believe our mail. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.db.models import DkimKey
from app.settings import Settings
from app.transports.email.dkim import record_name, record_value

LONGEST_STRING = 255
"""Characters of one string of a TXT record; a longer text is written as several."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `purpose` is `spf`, `dkim`, `dmarc` or `return_path`."""

    purpose: str
    name: str
    type: str
    value: str

    def zone_line(self) -> str:
        """As it stands in a zone file."""
        if self.type != "TXT":
            return f"{self.name}. IN {self.type} {self.value}"
        pieces = [self.value[start : start + LONGEST_STRING] for start in range(0, len(self.value), LONGEST_STRING)]
        return f"{self.name}. IN TXT " + " ".join(f'"{piece}"' for piece in pieces)


def records_to_publish(settings: Settings, domain: str, keys: Sequence[DkimKey]) -> list[Record]:
    """What the domain needs: SPF, a DKIM record for each key, and as an advice a DMARC policy to begin with."""
    signing = [
        Record("dkim", record_name(domain, key.selector), "TXT", record_value(key.algorithm, key.public_key))
        for key in keys
    ]
    return [
        Record("spf", domain, "TXT", f"v=spf1 {spf_mechanism(settings)} ~all"),
        *signing,
        Record("dmarc", f"_dmarc.{domain}", "TXT", "v=DMARC1; p=none"),
    ]


def spf_mechanism(settings: Settings) -> str:
    """What the SPF record of a sending domain has to hold (RFC 7208, 5)."""
    if settings.spf_include:
        return f"include:{settings.spf_include.lower()}"
    host = urlsplit(settings.public_url).hostname or ""
    try:
        return f"ip{ipaddress.ip_address(host).version}:{host}"
    except ValueError:
        return f"include:{host}"
