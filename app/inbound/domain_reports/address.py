"""The address to which mail servers send the reports about a domain, which is published in the DNS. Pure.

    reports+<token>@BOUNCE_DOMAIN

The token identifies the domain of one account and is signed, so that each account gets its own reports.
"""

from __future__ import annotations

from collections.abc import Iterable

from app.secret_keys import SecretKeys
from app.settings import Settings
from app.tracking.tokens import address_token, number_of_address

DOMAIN_REPORT_PURPOSE = "domain report"
LOCAL_PART = "reports"


def report_address(settings: Settings, domain_id: int) -> str | None:
    """The address for the reports about a domain; None without BOUNCE_DOMAIN."""
    if not settings.bounce_domain:
        return None
    return (
        f"{LOCAL_PART}+{address_token(settings.secret_key, DOMAIN_REPORT_PURPOSE, domain_id)}@{settings.bounce_domain}"
    )


def domain_of_addresses(secret_keys: SecretKeys, addresses: Iterable[str]) -> int | None:
    """The id of the domain that the first genuine address names; None if there is none."""
    for address in addresses:
        domain = number_of_address(secret_keys, address, {LOCAL_PART: DOMAIN_REPORT_PURPOSE})
        if domain:
            return domain[1]
    return None
