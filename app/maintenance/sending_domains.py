"""Sending domains with the records to publish for them, and what the last check has found
(docs/deliverability.md#sending-domains)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from app.accounts.dns_records import Record, records_to_publish
from app.accounts.signing_keys import keys_of_domains, published_keys
from app.db.models import DkimKey, Domain
from app.inbound.domain_reports.address import report_address
from app.settings import Settings
from app.tracking.sender_hosts import SenderHosts, settings_for

KEY_COLUMNS = ("selector", "algorithm", "state", "creation_time", "retired_time")

Row = Mapping[str, Any]


def records_of(settings: Settings, domain: Domain, keys: Sequence[DkimKey]) -> list[Record]:
    """The records to publish for the domain."""
    return records_to_publish(settings, domain, published_keys(keys), report_address(settings, domain.id))


def domain_rows(session: Session, settings: Settings, domains: Sequence[Domain]) -> list[Row]:
    """The domains with their records and the findings of the last lookup."""
    keys = keys_of_domains(session, domains)
    return [_row(settings, domain, keys[domain.id]) for domain in domains]


def _row(settings: Settings, domain: Domain, keys: Sequence[DkimKey]) -> Row:
    records = records_of(settings, domain, keys)
    findings = (domain.findings or {}).get("records", [])
    states = {(finding["purpose"], finding["name"], finding["type"]): finding for finding in findings}
    return {
        "id": domain.id,
        "name": domain.name,
        "verified": domain.verified_time is not None,
        "trusted": domain.trusted,
        "verified_time": domain.verified_time,
        "checked_time": domain.checked_time,
        "creation_time": domain.creation_time,
        **_hosts(settings, domain),
        "records": [_record(record, states.get((record.purpose, record.name, record.type), {})) for record in records],
        "keys": [{name: getattr(key, name) for name in KEY_COLUMNS} for key in keys],
    }


def _hosts(settings: Settings, domain: Domain) -> Row:
    """The hosts of the domain, and what is in use as long as they are not ready."""
    in_use = SenderHosts(
        domain.tracking_host if domain.tracking_host_ready else None,
        domain.return_path_host if domain.return_path_host_ready else None,
    )
    hosts = settings_for(settings, in_use)
    return {
        "tracking_host": domain.tracking_host,
        "return_path_host": domain.return_path_host,
        "links": hosts.public_url,
        "return_path": f"bounces+…@{hosts.bounce_domain or domain.name}",
    }


def _record(record: Record, finding: Row) -> Row:
    return {
        "purpose": record.purpose,
        "name": record.name,
        "type": record.type,
        "value": record.value,
        "state": finding.get("state"),
        "found": finding.get("found", []),
    }
