"""Sending domains with the records to publish for them, and looking these up
(docs/deliverability.md#sending-domains)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy.orm import Session

from app.accounts.dns_records import Record, records_to_publish
from app.accounts.domain_hosts import note_hosts
from app.accounts.domains import find_domain, note_findings
from app.accounts.key_rotation import take_up_published_keys
from app.accounts.signing_keys import keys_of_domains, published_keys
from app.accounts.verify import Finding, find, look_up_with
from app.db.models import DkimKey, Domain
from app.inbound.domain_reports.address import report_address
from app.services import Services
from app.settings import Settings
from app.tracking.sender_hosts import SenderHosts, settings_for

KEY_COLUMNS = ("selector", "algorithm", "state", "creation_time", "retired_time")
MOST_AT_ONCE = 8
"""Lookups of one domain at the same time: name servers that do not answer take ten seconds for each."""

Row = Mapping[str, Any]


def records_of(settings: Settings, domain: Domain, keys: Sequence[DkimKey]) -> list[Record]:
    """The records to publish for the domain."""
    return records_to_publish(settings, domain, published_keys(keys), report_address(settings, domain.id))


def domain_rows(session: Session, settings: Settings, domains: Sequence[Domain]) -> list[Row]:
    """The domains with their records and the findings of the last lookup."""
    keys = keys_of_domains(session, [domain.id for domain in domains])
    return [_row(settings, domain, keys[domain.id]) for domain in domains]


def verify_domain(services: Services, account_id: int, name: str) -> Row:
    """Looks the records up, outside of a transaction, and returns the domain with its findings.

    Raises `ServiceError` (`invalid_id`) for a domain that the account does not have.
    """
    with services.database.read() as session:
        domain = find_domain(session, account_id, name)
        keys = keys_of_domains(session, [domain.id])[domain.id]
    findings = _look_up(services.settings, records_of(services.settings, domain, keys))
    with services.database.write() as transaction:
        domain = find_domain(transaction, account_id, name)
        note_findings(domain, findings)
        note_hosts(domain, findings)
        take_up_published_keys(transaction, domain, findings)
        transaction.flush()
        (row,) = domain_rows(transaction, services.settings, [domain])
    return row


def _look_up(settings: Settings, records: Sequence[Record]) -> list[Finding]:
    look_up = look_up_with(settings)
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        return list(pool.map(lambda record: find(record, look_up), records))


def _row(settings: Settings, domain: Domain, keys: Sequence[DkimKey]) -> Row:
    records = records_of(settings, domain, keys)
    findings = (domain.findings or {}).get("records", [])
    states = {(one["purpose"], one["name"], one["type"]): one for one in findings}
    return {
        "id": domain.id,
        "name": domain.name,
        "verified": domain.verified_time is not None,
        "trusted": domain.trusted,
        "verified_time": domain.verified_time,
        "checked_time": domain.checked_time,
        "creation_time": domain.creation_time,
        **_hosts(settings, domain),
        "records": [_record(one, states.get((one.purpose, one.name, one.type), {})) for one in records],
        "keys": [{name: getattr(key, name) for name in KEY_COLUMNS} for key in keys],
    }


def _hosts(settings: Settings, domain: Domain) -> Row:
    """The hosts of the domain, and what is in use as long as they are not ready."""
    in_use = SenderHosts(
        domain.tracking_host if domain.trusted or domain.tracking_host_ready else None,
        domain.return_path_host if domain.trusted or domain.return_path_host_ready else None,
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
