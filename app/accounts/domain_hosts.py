"""The tracking host and the return-path host of a sending domain: names of its own that lead to this service.

A host belongs to one account. It is proven by a verified domain of that account at or above it, or by the operator, who
names it. While a verified domain has it, no other account can have it; a domain that is not verified holds nothing, so
that nobody stands in the way of the owner of a name. What an account had once is kept, because links of its mails lead
there (app/tracking/links.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import idna
from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from app.accounts.dns_records import Finding
from app.clock import this_second
from app.db.locks import advisory_lock
from app.db.models import Account, AccountHost, Domain
from app.errors import ServiceError

# Names of domains in the form in which they are stored and compared. Pure.

LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
MAX_NAME_LENGTH = 253


def domain_key(name: str) -> str:
    """The form in which domains are stored and compared: lower-case ASCII, international labels encoded.

    Raises `ValueError` unless the name is a domain with a dot.
    """
    try:
        ascii_name = idna.encode(name.strip().rstrip("."), uts46=True).decode("ascii").lower()
    except idna.IDNAError:
        ascii_name = name.strip().rstrip(".").lower()
    labels = ascii_name.split(".")
    if len(labels) < 2 or len(ascii_name) > MAX_NAME_LENGTH or not all(LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"{name!r} is not a domain name such as mail.example.com")
    return ascii_name


HOST_PURPOSES = {"tracking_host": "tracking", "return_path_host": "return_path"}
"""Attribute of a domain -> the purpose of the records of that host."""
MAX_HOSTS = 1_000
"""Hosts that an account has or had."""
PROVEN_BY_DOMAIN, PROVEN_BY_OPERATOR = "domain", "operator"
TAKEN, UNPROVEN = "taken", "unproven"
"""Why an account does not get a host: another one has it, or it is below no verified domain of this one."""


def set_hosts(session: Session, domain: Domain, hosts: Mapping[str, str | None], *, by_operator: bool) -> bool:
    """Sets the hosts that are given, or clears them; returns whether anything changed. A new host is used once its
    records are found, or at once if the domain is trusted. Raises `ServiceError` for an invalid host, for one of
    another account, and unless it is the operator who names it, for one that no domain of the account stands above."""
    checked = {name: _checked(domain, name, host) if host else None for name, host in hosts.items()}
    changed = {name: host for name, host in checked.items() if getattr(domain, name) != host}
    for name, host in changed.items():
        setattr(domain, name, host)
        setattr(domain, f"{name}_ready", False)
    if domain.tracking_host and domain.tracking_host == domain.return_path_host:
        detail = "is also the return-path host, and a name with a CNAME cannot have other records"
        raise ServiceError("conflict", field="tracking_host", detail=detail)
    refused = hold_hosts(session, domain.account_id, [host for host in checked.values() if host and by_operator])
    for name, host in changed.items():
        if host:
            _refuse(name, domain, refused[host] if host in refused else _reason_later(session, domain, host))
    if changed:
        _check_number(session, domain.account_id)
    return bool(changed)


def _check_number(session: Session, account_id: int) -> None:
    """Raises `ServiceError` (`conflict`) for an account with too many hosts: those that it had are kept for good."""
    host_count = select(func.count()).select_from(AccountHost).where(AccountHost.account_id == account_id)
    if (session.scalar(host_count) or 0) > MAX_HOSTS:
        raise ServiceError(
            "conflict",
            field="tracking_host",
            detail=f"the account has already used {MAX_HOSTS:,} hosts, which is the maximum",
        )


def _reason_later(session: Session, domain: Domain, host: str) -> str | None:
    """Why the account would not get the host of a domain once that is verified."""
    above = [domain.name, *(verified.name for verified in _verified(session, domain.account_id))]
    return None if domain.verified_time is not None or is_below(host, above) else UNPROVEN


def _refuse(name: str, domain: Domain, reason: str | None) -> None:
    if reason == TAKEN:
        raise ServiceError("conflict", field=name, detail="is the host of another account")
    if reason == UNPROVEN:
        detail = f"must be below a verified domain of the account, such as mail.{domain.name}; "
        detail += "after the domain is verified, the operator can set another host with a command"
        raise ServiceError("invalid_string", field=name, detail=detail)


def hold_hosts(session: Session, account_id: int, granted: Collection[str] = ()) -> Mapping[str, str]:
    """Brings what the account holds in line with the hosts of its verified domains, and has these use nothing else;
    `granted` are hosts that the operator names. Returns the hosts that the account does not get, with the reason."""
    if session.get_one(Account, account_id).test_of is not None:
        return {}
    advisory_lock(session, "account hosts", 0)
    session.flush()
    verified = _verified(session, account_id)
    named = {host for domain in verified for name in HOST_PURPOSES if (host := getattr(domain, name))}
    rows = _rows(session, account_id, named)
    proofs = {host: _proof(host, verified, granted, rows.get((account_id, host))) for host in named}
    holders = {row.host: row.account_id for row in rows.values() if row.released_time is None}
    refused = {host: UNPROVEN for host, proof in proofs.items() if proof is None}
    refused |= {host: TAKEN for host in named - refused.keys() if holders.get(host, account_id) != account_id}
    for row in rows.values():
        if row.account_id == account_id and (row.host not in named or row.host in refused):
            row.released_time = row.released_time or this_second()
    for host in sorted(named - refused.keys()):
        _hold(session, rows.get((account_id, host)), account_id, host, proofs[host] or PROVEN_BY_DOMAIN)
    for domain, name in ((domain, name) for domain in verified for name in HOST_PURPOSES if getattr(domain, name)):
        if getattr(domain, name) in refused:
            setattr(domain, f"{name}_ready", False)
        elif domain.trusted:
            setattr(domain, f"{name}_ready", True)
    session.flush()
    return refused


def _rows(session: Session, account_id: int, named: Collection[str]) -> dict[tuple[int, str], AccountHost]:
    """What accounts have or had of these names, and all that this one has."""
    is_of_account = (AccountHost.account_id == account_id) & AccountHost.released_time.is_(None)
    rows = session.scalars(select(AccountHost).where(or_(AccountHost.host.in_(sorted(named)), is_of_account)))
    return {(row.account_id, row.host): row for row in rows}


def _proof(host: str, verified: Sequence[Domain], granted: Collection[str], row: AccountHost | None) -> str | None:
    """How it is proven that the host is the account's. What the operator has named stays so while it is held."""
    if is_below(host, [domain.name for domain in verified]):
        return PROVEN_BY_DOMAIN
    was_granted = row is not None and row.proof == PROVEN_BY_OPERATOR and row.released_time is None
    return PROVEN_BY_OPERATOR if host in granted or was_granted else None


def _hold(session: Session, row: AccountHost | None, account_id: int, host: str, proof: str) -> None:
    if row is None:
        session.add(AccountHost(account_id=account_id, host=host, proof=proof, creation_time=this_second()))
    else:
        row.proof, row.released_time = proof, None


def is_below(host: str, domains: Collection[str]) -> bool:
    """Whether a host is one of the domains, or below one."""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _verified(session: Session, account_id: int) -> Sequence[Domain]:
    is_verified = Domain.account_id == account_id, Domain.verified_time.is_not(None)
    return session.scalars(select(Domain).where(*is_verified)).all()


def note_hosts(session: Session, domain: Domain, findings: Sequence[Finding]) -> None:
    """Stores whether the hosts can be used: the domain is verified, they are the account's, and all of their records
    are right or the domain is trusted. A lookup without an answer changes nothing. What is stored of a host that the
    account does not get says why."""
    refused = hold_hosts(session, domain.account_id)
    lost = {(purpose, host) for name, purpose in HOST_PURPOSES.items() if (host := getattr(domain, name)) in refused}
    if lost:
        domain.findings = {
            "records": [
                _stored(finding, refused if (finding.purpose, finding.name) in lost else {}) for finding in findings
            ]
        }
    for name, purpose in HOST_PURPOSES.items():
        host = getattr(domain, name)
        states = {finding.state for finding in findings if (finding.purpose, finding.name) == (purpose, host)}
        if domain.verified_time is None or host in refused:
            setattr(domain, f"{name}_ready", False)
        elif states and "unknown" not in states and not domain.trusted:
            setattr(domain, f"{name}_ready", states == {"right"})


def _stored(finding: Finding, refused: Mapping[str, str]) -> dict[str, Any]:
    stored = finding.stored()
    return {**stored, "state": refused.get(finding.name, finding.state)}


def _checked(domain: Domain, name: str, host: str) -> str:
    try:
        key = domain_key(host)
    except ValueError as error:
        raise ServiceError("invalid_string", field=name, detail=str(error)) from None
    if key == domain.name:
        detail = f"must differ from the domain, such as mail.{domain.name}, because it needs other records"
        raise ServiceError("invalid_string", field=name, detail=detail)
    return key
