"""The DKIM keys of sending domains: an RSA key and an Ed25519 key each; private keys are stored encrypted.

pending    made or imported, and not published yet: it does not sign
active     signs every mail of the domain
retired    replaced: its record stays published while mails that it signed are on their way
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import timedelta

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.clock import this_second
from app.db.models import Account, DkimKey, Domain
from app.errors import ServiceError
from app.infrastructure.secrets import encrypt
from app.transports.email.dkim import ALGORITHMS, NewKey, new_key, record_name

PENDING, ACTIVE, RETIRED = "pending", "active", "retired"
RETIRED_KEYS_KEPT = timedelta(days=7)
"""Receivers verify a mail when it arrives; some mails are on their way for days."""
LONGEST_SELECTOR = 63
LONGEST_NAME = 253
_LABEL = r"(?!-)[a-z0-9-]+(?<!-)"
_SELECTOR = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


def make_missing_keys(session: Session, domain: Domain, secret_key: str, selector: str | None = None) -> bool:
    """Creates an active key for each algorithm without one; returns whether any was created. Raises `ServiceError` for
    a selector that cannot be used."""
    present = set(session.scalars(select(DkimKey.algorithm).where(DkimKey.domain_id == domain.id)))
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
    is_name = len(selector) <= LONGEST_SELECTOR and _SELECTOR.fullmatch(selector)
    if not is_name or len(record_name(domain, selector)) > LONGEST_NAME:
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


def keys_of_domains(session: Session, domain_ids: Collection[int]) -> dict[int, list[DkimKey]]:
    """The keys of each domain, RSA first; one select."""
    statement = select(DkimKey).where(DkimKey.domain_id.in_(domain_ids)).order_by(DkimKey.algorithm.desc(), DkimKey.id)
    found: dict[int, list[DkimKey]] = defaultdict(list)
    for key in session.scalars(statement):
        found[key.domain_id].append(key)
    return found


def published_keys(keys: Iterable[DkimKey]) -> list[DkimKey]:
    """The keys whose records are to be published."""
    return [key for key in keys if key.state != RETIRED]
