"""The DKIM keys of sending domains, and changing them (docs/deliverability.md#rotating-keys)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.accounts.dns_records import Finding
from app.clock import this_second
from app.db.models import Account, DkimKey, Domain
from app.distribution import COMMAND_LINE
from app.errors import ServiceError
from app.secret_keys import encrypt
from app.transports.email.dkim import ALGORITHMS, NewKey, imported_key, new_key, record_name

PENDING, ACTIVE, RETIRED = "pending", "active", "retired"
RETIRED_KEY_LIFETIME = timedelta(days=7)
"""Receivers verify a mail when it arrives; some mails are on their way for days."""
MAX_SELECTOR_LENGTH = 63
MAX_NAME_LENGTH = 253
_LABEL = r"(?!-)[a-z0-9-]+(?<!-)"
_SELECTOR = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


def make_missing_keys(session: Session, domain: Domain, secret_key: str, selector: str | None = None) -> bool:
    """Creates an active key for each algorithm without one; returns whether any was created. Raises `ServiceError` for
    a selector that cannot be used."""
    present = {key.algorithm for key in _keys(session, domain)}
    missing = [algorithm for algorithm in ALGORITHMS if algorithm not in present]
    for algorithm in missing:
        add_key(session, domain, secret_key, new_key(algorithm, selector_of(algorithm, selector)), ACTIVE)
    return bool(missing)


def selector_of(algorithm: str, selector: str | None) -> str | None:
    """The selector of a new key: two keys of one domain cannot share one."""
    return selector if selector is None or algorithm == "rsa" else f"{selector}-{algorithm}"


def add_key(session: Session, domain: Domain, secret_key: str, key: NewKey, state: str) -> DkimKey:
    """Stores the key. Raises `ServiceError` if its selector is invalid or taken."""
    check_selector(key.selector, domain.name)
    _check_free(session, domain, key)
    row = DkimKey(
        account_id=domain.account_id,
        domain_id=domain.id,
        selector=key.selector,
        algorithm=key.algorithm,
        private_key=encrypt(secret_key, key.private_key),
        public_key=key.public_key,
        creation_time=this_second(),
        state=state,
    )
    session.add(row)
    session.flush()
    return row


def check_selector(selector: str, domain: str) -> None:
    """Raises `ServiceError` (`invalid_string`) for a selector that cannot be part of a name."""
    is_name = len(selector) <= MAX_SELECTOR_LENGTH and _SELECTOR.fullmatch(selector)
    if not is_name or len(record_name(domain, selector)) > MAX_NAME_LENGTH:
        detail = f"{selector!r} is not a selector such as mail-2027: lower-case letters, digits, - and dots"
        raise ServiceError("invalid_string", field="selector", detail=detail)


def _check_free(session: Session, domain: Domain, key: NewKey) -> None:
    """One selector of a domain can have one record, whichever accounts have verified the domain: who only claims it
    takes no selector. Test accounts have copies of the keys of others."""
    statement = (
        select(DkimKey.domain_id, DkimKey.public_key)
        .join(Domain, Domain.id == DkimKey.domain_id)
        .join(Account, Account.id == Domain.account_id)
        .where(
            or_(Domain.id == domain.id, Domain.verified_time.is_not(None)),
            *(Domain.name == domain.name, DkimKey.selector == key.selector, Account.test_of.is_(None)),
        )
    )
    for domain_id, public_key in session.execute(statement):
        if domain_id == domain.id or public_key != key.public_key:
            detail = f"another key of {domain.name} has the selector {key.selector}"
            raise ServiceError("conflict", field="selector", detail=detail)


def keys_of_domains(session: Session, domains: Collection[Domain]) -> dict[int, list[DkimKey]]:
    """The keys of each domain by its id, RSA first; one select."""
    account_ids, domain_ids = {domain.account_id for domain in domains}, [domain.id for domain in domains]
    is_sought = DkimKey.account_id.in_(account_ids), DkimKey.domain_id.in_(domain_ids)
    keys_by_domain: dict[int, list[DkimKey]] = defaultdict(list)
    for key in session.scalars(select(DkimKey).where(*is_sought).order_by(DkimKey.algorithm.desc(), DkimKey.id)):
        keys_by_domain[key.domain_id].append(key)
    return keys_by_domain


def published_keys(keys: Iterable[DkimKey]) -> list[DkimKey]:
    """The keys whose records are to be published."""
    return [key for key in keys if key.state != RETIRED]


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
    has_active = any(
        signing_key.state == ACTIVE and signing_key.algorithm == key.algorithm for signing_key in _keys(session, domain)
    )
    if has_active:
        _check_none_pending(session, domain, key.algorithm)
    add_key(session, domain, secret_key, key, PENDING if has_active else ACTIVE)
    return True


def take_up_published_keys(session: Session, domain: Domain, findings: Sequence[Finding]) -> None:
    """The pending keys whose records were found sign from now on, in place of those of the same algorithm."""
    right = {finding.name for finding in findings if finding.purpose == "dkim" and finding.state == "right"}
    for key in _keys(session, domain):
        if key.state == PENDING and record_name(domain.name, key.selector) in right:
            _take_up(session, domain, key)


def remove_key(session: Session, domain: Domain, selector: str) -> None:
    """Deletes a key. Raises `ServiceError` for the only one that signs, and for an unknown selector."""
    keys = _keys(session, domain)
    key = next((signing_key for signing_key in keys if signing_key.selector == selector), None)
    if key is None:
        raise ServiceError("invalid_id", field="selector", detail=f"{domain.name} has no key {selector!r}")
    if key.state == ACTIVE and sum(signing_key.state == ACTIVE for signing_key in keys) == 1:
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
    return keys_of_domains(session, [domain])[domain.id]


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
