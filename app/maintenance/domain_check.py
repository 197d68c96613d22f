"""Looking up the records of a sending domain (docs/deliverability.md#sending-domains). This waits for name servers, so
only a worker and the command line do it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from app.accounts.dns_records import Finding, Record, find
from app.accounts.domain_hosts import note_hosts
from app.accounts.domains import find_domain, note_findings
from app.accounts.signing_keys import keys_of_domains, take_up_published_keys
from app.maintenance.sending_domains import Row, domain_rows, records_of
from app.network.dns import look_up_with
from app.services import Services
from app.settings import Settings

DEADLINE_SECONDS = 15.0
"""Seconds for all records of a domain."""
MAX_LOOKUPS = 8
"""Lookups of one domain at the same time: name servers that do not answer take ten seconds for each."""


def verify_domain(services: Services, account_id: int, name: str) -> Row:
    """Looks the records up, outside of a transaction, and returns the domain with its findings.

    It takes no longer than the deadline: what is not answered by then is unknown. Raises `ServiceError` (`invalid_id`)
    for a domain that the account does not have.
    """
    with services.database.read() as session:
        domain = find_domain(session, account_id, name)
        keys = keys_of_domains(session, [domain])[domain.id]
    findings = _look_up(services.settings, records_of(services.settings, domain, keys))
    with services.database.write() as transaction:
        domain = find_domain(transaction, account_id, name)
        note_findings(domain, findings)
        note_hosts(transaction, domain, findings)
        take_up_published_keys(transaction, domain, findings)
        transaction.flush()
        (row,) = domain_rows(transaction, services.settings, [domain])
    return row


def _look_up(settings: Settings, records: Sequence[Record]) -> list[Finding]:
    look_up = look_up_with(settings, DEADLINE_SECONDS)
    with ThreadPoolExecutor(MAX_LOOKUPS) as pool:
        return list(pool.map(lambda record: find(record, look_up), records))
