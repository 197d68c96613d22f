"""Idempotency keys: the same POST twice gives the first answer twice (decisions: 6).

A key is claimed in a transaction of its own, so that a second request sees it at once; the answer is stored in the
transaction of the work itself, so that there is never the one without the other. Only answers that did something are
remembered: after an error nothing was written, and the key is free again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import timedelta

from flask import Response, request
from sqlalchemy import delete, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from app.clock import now
from app.db.bulk import is_postgresql
from app.db.database import Transaction
from app.db.models import IdempotencyRecord
from app.errors import ServiceError
from app.http.context import principal, services
from app.http.responses import JSON

Work = Callable[[Transaction], Response]
"""What a request asks for, once its body is known to be sound."""

HEADER = "Idempotency-Key"
KEY = re.compile(r"[\x21-\x7e]{1,255}")
ABANDONED_AFTER = timedelta(minutes=5)
"""A claim this old without an answer belongs to a process that died; gunicorn ends a request long before."""


def idempotent(prepare: Callable[[], Work]) -> Response:
    """Runs the work that `prepare` reads from the request, in one writing transaction, or repeats its first answer.

    What was answered before is not looked at again: it stays so, whatever has become of the account since. Raises
    `invalid_request` for a malformed key, `conflict` for a key that was used with another request or whose first
    request is still in progress.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return services().database.transact(prepare())
    if not KEY.fullmatch(key):
        raise ServiceError("invalid_request", detail=f"{HEADER} must be 1 to 255 visible ASCII characters.")
    fingerprint = _fingerprint()
    with services().database.read() as session:
        known = _find(session, key)
    if known is not None and known.status is not None and known.fingerprint == fingerprint and not _is_old(known):
        return _replay(known)
    return _first(key, fingerprint, known, prepare())


def _first(key: str, fingerprint: str, known: IdempotencyRecord | None, work: Work) -> Response:
    """Claims the key and runs the work, unless another request is found to have done so."""
    claim = _claim_or_replay(key, fingerprint, known)
    if isinstance(claim, Response):
        return claim

    def remembered(transaction: Transaction) -> Response:
        response = work(transaction)
        _remember(transaction, claim, response)
        return response

    try:
        return services().database.transact(remembered)
    except BaseException:
        _forget(claim)
        raise


def _fingerprint() -> str:
    """What must be the same in a repeated request: method, path with query, and body."""
    target = request.path.encode("utf-8", "surrogatepass") + b"?" + request.query_string
    parts = (request.method.encode(), target, request.get_data(cache=True))
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


def _claim_or_replay(key: str, fingerprint: str, row: IdempotencyRecord | None) -> int | Response:
    """The id of the record by which this request holds the key, or the answer that was given before. `row` is the
    record that the key had a moment ago."""
    if row is None or (row.status is None and row.creation_time < now() - ABANDONED_AFTER) or _is_old(row):
        with services().database.write() as transaction:
            claim = _claim(transaction, key, fingerprint, row)
            if claim is not None:
                return claim
            row = _find(transaction, key)
    if row is not None and row.fingerprint != fingerprint:
        raise ServiceError("conflict", detail=f"This {HEADER} was used with another request.")
    if row is None or row.status is None:
        raise ServiceError("conflict", detail=f"The first request with this {HEADER} is still in progress.")
    return _replay(row)


def _replay(row: IdempotencyRecord) -> Response:
    return Response(row.body, row.status, {"Idempotent-Replayed": "true"}, content_type=JSON)


def _is_old(row: IdempotencyRecord) -> bool:
    return row.creation_time < now() - timedelta(hours=services().settings.idempotency_hours)


def _find(session: Session, key: str) -> IdempotencyRecord | None:
    statement = select(IdempotencyRecord).where(
        IdempotencyRecord.account_id == principal().account_id, IdempotencyRecord.key == key
    )
    return session.execute(statement).scalar_one_or_none()


def _claim(transaction: Transaction, key: str, fingerprint: str, stale: IdempotencyRecord | None) -> int | None:
    """The id of a new record, None where somebody else holds the key. An abandoned or expired record gives way, unless
    its request has answered after all since it was looked at."""
    if stale is not None:
        transaction.execute(
            delete(IdempotencyRecord).where(
                IdempotencyRecord.id == stale.id, IdempotencyRecord.status.is_not_distinct_from(stale.status)
            )
        )
    insert = postgresql.insert if is_postgresql(transaction) else sqlite.insert
    statement = (
        insert(IdempotencyRecord)
        .values(account_id=principal().account_id, key=key, fingerprint=fingerprint, creation_time=now())
        .on_conflict_do_nothing(index_elements=["account_id", "key"])
        .returning(IdempotencyRecord.id)
    )
    return transaction.execute(statement).scalar_one_or_none()


def _remember(transaction: Transaction, claim: int, response: Response) -> None:
    """Raises `conflict`, which undoes the work, where another request has taken the key over meanwhile."""
    kept = transaction.execute(
        update(IdempotencyRecord)
        .where(IdempotencyRecord.id == claim)
        .values(status=response.status_code, body=response.get_data(as_text=True))
        .returning(IdempotencyRecord.id)
    )
    if kept.first() is None:
        raise ServiceError("conflict", detail=f"This request took so long that its {HEADER} was given to a later one.")


def _forget(claim: int) -> None:
    with services().database.write() as transaction:
        transaction.execute(
            delete(IdempotencyRecord).where(IdempotencyRecord.id == claim, IdempotencyRecord.status.is_(None))
        )
