"""Sealing the entries of the audit log, and keeping checkpoints of those that are purged (docs/audit.md#seals).

Whoever seals or purges holds one lock, so that one does so at a time; acts do not need it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, delete, exists, func, insert, or_, select
from sqlalchemy.orm import Session

from app.audit.chain import entry_digest, purged_mark, seal_hash
from app.clock import this_second
from app.db.bulk import insert_rows
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.locks import advisory_lock
from app.db.models import AuditEntry, AuditSeal, DigestKey, table_of
from app.infrastructure.digests import new_digest_key
from app.secret_keys import SecretKeys, SecretUnreadable, decrypt

FIRST_KEY = 2
"""The id of the first key of seals: 1 is that of forgotten addresses."""
ENTRIES, SEALS = table_of(AuditEntry), table_of(AuditSeal)
LAST_SEALED = select(SEALS.c.entry_id).order_by(SEALS.c.number.desc()).limit(1).scalar_subquery()

logger = logging.getLogger(__name__)


def has_unsealed(session: Session) -> bool:
    """Whether there is an entry behind the last one that is sealed."""
    return bool(session.scalar(select(exists().where(ENTRIES.c.id > func.coalesce(LAST_SEALED, 0)))))


def seal_next(transaction: Transaction, secret_keys: SecretKeys, settled: int, most: int) -> int:
    """Seals so many of the next entries at most, in the order of their ids, up to the id `settled`, before which no
    entry can appear any more. Returns how many."""
    _lock(transaction)
    last = transaction.execute(select(SEALS).order_by(SEALS.c.number.desc()).limit(1)).mappings().first()
    number, last_id, last_hash = (last["number"], last["entry_id"], last["hash"]) if last else (0, 0, "")
    statement = (
        select(ENTRIES).where(ENTRIES.c.id > last_id, ENTRIES.c.id <= settled).order_by(ENTRIES.c.id).limit(most)
    )
    entries = [dict(row) for row in transaction.execute(statement).mappings()]
    if not entries:
        return 0
    key_id, key = _key_in_use(transaction, secret_keys)
    seals = []
    for entry in entries:
        number += 1
        seal = {"number": number, "entry_id": entry["id"], "time": entry["time"], "digest": entry_digest(key, entry)}
        last_hash = seal_hash(key, seal, last_hash)
        seals.append({**seal, "first_number": number, "key_id": key_id, "hash": last_hash})
    insert_rows(transaction, AuditSeal, seals)
    return len(seals)


def keep_checkpoints(transaction: Transaction, secret_keys: SecretKeys, entry_ids: Sequence[int]) -> None:
    """Before these entries are deleted: makes their seals checkpoints, of which one takes in those beside it. Entries
    that are not sealed need none."""
    _lock(transaction)
    statement = select(SEALS).where(in_json(SEALS.c.entry_id, entry_ids), SEALS.c.purged_time.is_(None))
    purged = [dict(row) for row in transaction.execute(statement).mappings()]
    if not purged:
        return
    before = in_json(SEALS.c.number, [seal["number"] - 1 for seal in purged])
    after = in_json(SEALS.c.first_number, [seal["number"] + 1 for seal in purged])
    beside = select(SEALS).where(SEALS.c.purged_time.is_not(None), or_(before, after))
    runs = _runs([*purged, *(dict(row) for row in transaction.execute(beside).mappings())])
    key_id, key = _key_in_use(transaction, secret_keys)
    replaced = [seal["number"] for run in runs for seal in run]
    transaction.connection().execute(delete(SEALS).where(in_json(SEALS.c.number, replaced)))
    made = {"key_id": key_id, "purged_time": this_second()}
    kept = [{**run[-1], **made, "first_number": run[0]["first_number"]} for run in runs]
    insert_rows(transaction, AuditSeal, [{**seal, "purged_mark": purged_mark(key, seal)} for seal in kept])


def seal_keys(rows: Sequence[Row[int, str]], secret_keys: SecretKeys) -> dict[int, bytes]:
    """The keys of seals by their ids, without those that cannot be decrypted."""
    keys = {}
    for key_id, stored in rows:
        try:
            keys[key_id] = decrypt(secret_keys, stored).encode()
        except SecretUnreadable:
            continue
    return keys


STORED_KEYS = select(DigestKey.id, DigestKey.key).where(DigestKey.id >= FIRST_KEY).order_by(DigestKey.id)


def _lock(transaction: Transaction) -> None:
    advisory_lock(transaction, "audit seals", 0)


def _key_in_use(transaction: Transaction, secret_keys: SecretKeys) -> tuple[int, bytes]:
    """The last key; a new one where there is none, or none that can be decrypted."""
    rows = transaction.execute(STORED_KEYS).all()
    last_id = rows[-1][0] if rows else FIRST_KEY - 1
    keys = seal_keys(rows[-1:], secret_keys)
    if last_id in keys:
        return last_id, keys[last_id]
    if rows:
        logger.error("the key of the audit log seals cannot be read, so a new key is created")
    stored = new_digest_key(secret_keys[0])
    transaction.connection().execute(insert(table_of(DigestKey)).values(id=last_id + 1, key=stored))
    return last_id + 1, decrypt(secret_keys, stored).encode()


def _runs(seals: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The seals in their order, those together whose numbers follow each other."""
    runs: list[list[Mapping[str, Any]]] = []
    for seal in sorted(seals, key=lambda seal: int(seal["number"])):
        if runs and runs[-1][-1]["number"] + 1 == seal["first_number"]:
            runs[-1].append(seal)
        else:
            runs.append([seal])
    return runs
