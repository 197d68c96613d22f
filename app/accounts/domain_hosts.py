"""The tracking host and the return-path host of a sending domain: names of its own that lead to this service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from app.accounts.domain_names import domain_key
from app.accounts.verify import Finding
from app.db.models import Domain
from app.errors import ServiceError

HOSTS = {"tracking_host": "tracking", "return_path_host": "return_path"}
"""Attribute of a domain -> the purpose of the records of that host."""


def set_hosts(session: Session, domain: Domain, hosts: Mapping[str, str | None]) -> bool:
    """Sets the hosts that are given, or clears them; returns whether anything changed. A new host is used once its
    records are found, or at once if the domain is trusted. Raises `ServiceError` for an invalid host."""
    checked = {name: _checked(domain, name, host) if host else None for name, host in hosts.items()}
    changed = {name: host for name, host in checked.items() if getattr(domain, name) != host}
    for name, host in changed.items():
        setattr(domain, name, host)
        setattr(domain, f"{name}_ready", False)
    if domain.tracking_host and domain.tracking_host == domain.return_path_host:
        detail = "is the return-path host, too: a name with a CNAME can have no other records"
        raise ServiceError("conflict", field="tracking_host", detail=detail)
    session.flush()
    return bool(changed)


def note_hosts(domain: Domain, findings: Sequence[Finding]) -> None:
    """Stores whether the hosts can be used: all of their records are right. A lookup without an answer changes
    nothing."""
    for name, purpose in HOSTS.items():
        host = getattr(domain, name)
        states = {one.state for one in findings if one.purpose == purpose and one.name == host}
        if states and "unknown" not in states:
            setattr(domain, f"{name}_ready", states == {"right"})


def _checked(domain: Domain, name: str, host: str) -> str:
    try:
        key = domain_key(host)
    except ValueError as error:
        raise ServiceError("invalid_string", field=name, detail=str(error)) from None
    if key == domain.name:
        detail = f"must be a name of its own, such as mail.{domain.name}, because its records differ from the domain's"
        raise ServiceError("invalid_string", field=name, detail=detail)
    return key
