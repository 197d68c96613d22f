"""Changing the DKIM keys of a domain: a new key stands beside the old one until its record is published
(docs/deliverability.md#rotating-keys)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.signing_keys import ACTIVE, PENDING, RETIRED, add_key, keys_of_domains, selector_of
from app.accounts.verify import Finding
from app.clock import this_second
from app.db.models import DkimKey, Domain
from app.distribution import COMMAND_LINE
from app.errors import ServiceError
from app.transports.email.dkim import ALGORITHMS, NewKey, imported_key, new_key, record_name


def rotate_keys(session: Session, domain: Domain, secret_key: str, selector: str | None = None) -> None:
    """Makes a pending key of each algorithm. Raises `ServiceError`."""
    for algorithm in ALGORITHMS:
        _check_none_pending(session, domain, algorithm)
        add_key(session, domain, secret_key, new_key(algorithm, selector_of(algorithm, selector)), PENDING)


def import_key(session: Session, domain: Domain, secret_key: str, selector: str, pem: str) -> bool:
    """Stores a private key of the operator's; returns whether it is new. It is pending if a key of its algorithm signs
    already. Raises `ServiceError`."""
    try:
        key = imported_key(selector, pem)
    except ValueError as error:
        raise ServiceError("invalid_string", field="private_key", detail=str(error)) from None
    if _is_known(session, domain, key):
        return False
    has_active = any(one.state == ACTIVE and one.algorithm == key.algorithm for one in _keys(session, domain))
    if has_active:
        _check_none_pending(session, domain, key.algorithm)
    add_key(session, domain, secret_key, key, PENDING if has_active else ACTIVE)
    return True


def take_up_published_keys(session: Session, domain: Domain, findings: Sequence[Finding]) -> None:
    """The pending keys whose records were found sign from now on, in place of those of the same algorithm."""
    right = {one.name for one in findings if one.purpose == "dkim" and one.state == "right"}
    for key in _keys(session, domain):
        if key.state == PENDING and record_name(domain.name, key.selector) in right:
            _take_up(session, domain, key)


def remove_key(session: Session, domain: Domain, selector: str) -> None:
    """Deletes a key. Raises `ServiceError` for the only one that signs, and for an unknown selector."""
    keys = _keys(session, domain)
    key = next((one for one in keys if one.selector == selector), None)
    if key is None:
        raise ServiceError("invalid_id", field="selector", detail=f"{domain.name} has no key {selector!r}")
    if key.state == ACTIVE and sum(one.state == ACTIVE for one in keys) == 1:
        detail = (
            f"{selector} is the only key that signs mail of {domain.name}; `{COMMAND_LINE} domains rotate` replaces it"
        )
        raise ServiceError("conflict", field="selector", detail=detail)
    session.delete(key)
    session.flush()


def _take_up(session: Session, domain: Domain, key: DkimKey) -> None:
    for former in _keys(session, domain):
        if former.state == ACTIVE and former.algorithm == key.algorithm:
            former.state, former.retired_time = RETIRED, this_second()
    key.state = ACTIVE
    session.flush()


def _keys(session: Session, domain: Domain) -> list[DkimKey]:
    return keys_of_domains(session, [domain.id])[domain.id]


def _is_known(session: Session, domain: Domain, key: NewKey) -> bool:
    """Whether the domain has this very key under this selector."""
    statement = select(DkimKey.id).where(
        DkimKey.domain_id == domain.id, DkimKey.selector == key.selector, DkimKey.public_key == key.public_key
    )
    return session.scalars(statement).first() is not None


def _check_none_pending(session: Session, domain: Domain, algorithm: str) -> None:
    for key in _keys(session, domain):
        if key.state == PENDING and key.algorithm == algorithm:
            detail = (
                f"the key {key.selector} of {domain.name} is pending: publish its record and run "
                f"`{COMMAND_LINE} domains verify`, or remove it with `{COMMAND_LINE} domains remove-key`"
            )
            raise ServiceError("conflict", field="selector", detail=detail)
