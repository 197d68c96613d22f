"""Looking up the DNS records of a domain, and storing what was found."""

from __future__ import annotations

from app.accounts.domain_hosts import note_hosts
from app.accounts.domains import find_domain, note_findings
from app.accounts.key_rotation import take_up_published_keys
from app.accounts.signing_keys import keys_of_domains
from app.accounts.verify import find, look_up_with
from app.cli.base import Row
from app.cli.domain_rows import domain_rows, records_of
from app.http.context import services


def verify_domain(account_id: int, name: str) -> Row:
    """Looks the records up, outside of a transaction, and returns the domain with its findings.

    Raises `ServiceError` (`invalid_id`) for a domain that the account does not have.
    """
    parts = services()
    with parts.database.read() as session:
        domain = find_domain(session, account_id, name)
        keys = keys_of_domains(session, [domain.id])[domain.id]
    look_up = look_up_with(parts.settings)
    findings = [find(record, look_up) for record in records_of(domain, keys)]
    with parts.database.write() as transaction:
        domain = find_domain(transaction, account_id, name)
        note_findings(domain, findings)
        note_hosts(domain, findings)
        take_up_published_keys(transaction, domain, findings)
        transaction.flush()
        (row,) = domain_rows(transaction, [domain])
    return row
