"""Sending domains: a mail is only sent from a domain that counts as configured."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.dns_records import Finding
from app.accounts.domain_hosts import domain_key, hold_hosts
from app.accounts.signing_keys import make_missing_keys
from app.clock import this_second
from app.db.models import Domain
from app.errors import ServiceError


def list_domains(session: Session, account_id: int) -> list[Domain]:
    """The domains of the account, by name."""
    return list(session.scalars(select(Domain).where(Domain.account_id == account_id).order_by(Domain.name)))


def find_domain(session: Session, account_id: int, name: str) -> Domain:
    """The account's domain of that name. Raises `ServiceError` (`invalid_id`)."""
    domain = _domain(session, account_id, _checked(name))
    if domain is None:
        raise ServiceError("invalid_id", field="domain", detail=f"the account has no domain {name!r}")
    return domain


def add_domain(
    session: Session, account_id: int, name: str, *, trusted: bool, secret_key: str, selector: str | None = None
) -> bool:
    """Adds the domain with its signing keys, or marks an existing one as trusted; returns whether anything changed.

    A trusted domain counts as configured at once, whatever its DNS records say
    (docs/deliverability.md#sending-domains). Trust is never revoked here. `selector` is the one of its first keys.
    """
    domain, changed = add_domain_without_keys(session, account_id, name, trusted=trusted)
    return make_missing_keys(session, domain, secret_key, selector) or changed


def add_domain_without_keys(session: Session, account_id: int, name: str, *, trusted: bool) -> tuple[Domain, bool]:
    """The domain, which is added unless the account has it, and whether anything changed."""
    key = _checked(name)
    domain = _domain(session, account_id, key)
    changed = domain is None
    if domain is None:
        domain = Domain(account_id=account_id, name=key, creation_time=this_second(), trusted=False)
        session.add(domain)
        session.flush()
    if trusted and not (domain.trusted and domain.verified_time):
        domain.trusted, domain.verified_time, changed = True, domain.verified_time or this_second(), True
        hold_hosts(session, account_id)
    return domain, changed


def note_findings(domain: Domain, findings: Sequence[Finding]) -> None:
    """Stores the findings of a lookup. The domain counts as configured while its SPF record and one of its DKIM records
    are correct, or if the operator trusts it. A lookup without an answer changes nothing.
    """
    moment = this_second()
    domain.checked_time = moment
    domain.findings = {"records": [finding.stored() for finding in findings]}
    states = {
        purpose: {finding.state for finding in findings if finding.purpose == purpose} for purpose in ("spf", "dkim")
    }
    if all("right" in purpose_states for purpose_states in states.values()):
        domain.verified_time = domain.verified_time or moment
    elif not domain.trusted and any(not purpose_states & {"right", "unknown"} for purpose_states in states.values()):
        domain.verified_time = None


def delete_domain(session: Session, account_id: int, name: str) -> None:
    """Removes the domain: sends from it are refused from now on, and what waits does not leave without it
    (docs/waiting.md). Raises `ServiceError` (`invalid_id`)."""
    session.delete(find_domain(session, account_id, name))
    hold_hosts(session, account_id)


def _checked(name: str) -> str:
    try:
        return domain_key(name)
    except ValueError as error:
        raise ServiceError("invalid_string", field="domain", detail=str(error)) from None


def _domain(session: Session, account_id: int, key: str) -> Domain | None:
    return session.scalars(select(Domain).where(Domain.account_id == account_id, Domain.name == key)).first()
