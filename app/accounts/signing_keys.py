"""The DKIM keys of sending domains: an RSA key and an Ed25519 key each; private keys are stored encrypted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.clock import this_second
from app.db.models import DkimKey, Domain
from app.infrastructure.secrets import encrypt
from app.transports.email.dkim import ALGORITHMS, new_key


def make_missing_keys(session: Session, domain: Domain, secret_key: str) -> bool:
    """Creates a key for each algorithm without one; returns whether any was created."""
    present = set(session.scalars(select(DkimKey.algorithm).where(DkimKey.domain_id == domain.id)))
    missing = [algorithm for algorithm in ALGORITHMS if algorithm not in present]
    for key in map(new_key, missing):
        session.add(
            DkimKey(
                account_id=domain.account_id,
                domain_id=domain.id,
                selector=key.selector,
                algorithm=key.algorithm,
                private_key=encrypt(secret_key, key.private_key),
                public_key=key.public_key,
                creation_time=this_second(),
            )
        )
    session.flush()
    return bool(missing)


def keys_of_domains(session: Session, domain_ids: Collection[int]) -> dict[int, list[DkimKey]]:
    """The keys of each domain, RSA first; one select."""
    statement = select(DkimKey).where(DkimKey.domain_id.in_(domain_ids)).order_by(DkimKey.algorithm.desc(), DkimKey.id)
    found: dict[int, list[DkimKey]] = defaultdict(list)
    for key in session.scalars(statement):
        found[key.domain_id].append(key)
    return found
