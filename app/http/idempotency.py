"""Idempotency keys: the same POST twice gives the first answer twice (docs/requests.md#idempotency).

A key is claimed in a transaction of its own, so that a second request sees it at once; the answer is stored in the
transaction of the work itself, so that there is never the one without the other. Only answers that did something are
remembered: after an error nothing was written, and the key is free again.

A claim names its request, and is worth nothing once that has ended, however it ended. Whether its work was committed
all the same, when nobody heard the answer to that, the database decides: the work holds its record locked until then,
and who wants the key waits for it.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
from collections.abc import Callable
from datetime import timedelta

from flask import Response, request
from sqlalchemy import delete, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.clock import now
from app.db.database import Transaction
from app.db.models import IdempotencyRecord
from app.db.outage import log_failure
from app.db.upsert import insert_or_ignore
from app.errors import ServiceError
from app.http.context import principal, services
from app.http.idempotency_locks import RequestsInHand, requests_in_hand
from app.http.responses import JSON

Work = Callable[[Transaction], Response]
"""What a request asks for, once its body is known to be sound."""

HEADER = "Idempotency-Key"
KEY = re.compile(r"[\x21-\x7e]{1,255}")
LEASE = timedelta(minutes=1)
"""Longer than a request works on what it has read; one that takes longer all the same does nothing (`_remember`)."""
SOON = 1
"""Seconds after which the end of a request of this machine may be looked for again."""

logger = logging.getLogger(__name__)


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
    with _in_hand().one() as holder:
        claim = _claim_or_replay(key, fingerprint, known, holder)
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


def _in_hand() -> RequestsInHand:
    return requests_in_hand(services().settings.data_dir / "requests")


def _fingerprint() -> str:
    """What must be the same in a repeated request: method, path with query, and body. A trailing slash changes nothing
    (docs/requests.md#idempotency)."""
    path = request.path.rstrip("/")
    target = path.encode("utf-8", "surrogatepass") + b"?" + request.query_string
    parts = (request.method.encode(), target, request.get_data(cache=True))
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


def _claim_or_replay(key: str, fingerprint: str, row: IdempotencyRecord | None, holder: str) -> int | Response:
    """The id of the record by which this request holds the key, or the answer that was given before. `row` is the
    record that the key had a moment ago."""
    if row is None or _is_free(row):
        with services().database.write() as transaction:
            claim = _claim(transaction, key, fingerprint, holder, row)
            if claim is not None:
                return claim
            row = _find(transaction, key)
    if row is not None and row.fingerprint != fingerprint:
        raise ServiceError("conflict", detail=f"This {HEADER} was used with another request.", retry_after=_wait(row))
    if row is None or row.status is None:
        detail = f"The first request with this {HEADER} is still in progress."
        raise ServiceError("conflict", detail=detail, retry_after=_wait(row))
    return _replay(row)


def _is_free(row: IdempotencyRecord) -> bool:
    """Whether the record no longer stands for anything: it is old, or its request has ended without an answer."""
    if row.status is not None:
        return _is_old(row)
    return _left(row) <= timedelta() or _in_hand().has_ended(row.holder or "") is True


def _left(row: IdempotencyRecord) -> timedelta:
    """Of the lease."""
    return (row.lease_time or row.creation_time + LEASE) - now()


def _wait(row: IdempotencyRecord | None) -> int | None:
    """Seconds after which another try may find the key free; None where it will not."""
    if row is not None and row.status is not None:
        return None
    known_here = row is None or _in_hand().has_ended(row.holder or "") is not None
    return SOON if known_here or row is None else max(SOON, math.ceil(_left(row).total_seconds()))


def _replay(row: IdempotencyRecord) -> Response:
    return Response(row.body, row.status, {"Idempotent-Replayed": "true"}, content_type=JSON)


def _is_old(row: IdempotencyRecord) -> bool:
    return row.creation_time < now() - timedelta(hours=services().settings.idempotency_hours)


def _find(session: Session, key: str) -> IdempotencyRecord | None:
    statement = select(IdempotencyRecord).where(
        IdempotencyRecord.account_id == principal().account_id, IdempotencyRecord.key == key
    )
    return session.execute(statement).scalar_one_or_none()


def _claim(
    transaction: Transaction, key: str, fingerprint: str, holder: str, stale: IdempotencyRecord | None
) -> int | None:
    """The id of a new record, None where somebody else holds the key. An abandoned or expired record gives way, unless
    its request has answered after all since it was looked at."""
    if stale is not None:
        transaction.execute(
            delete(IdempotencyRecord).where(
                IdempotencyRecord.id == stale.id, IdempotencyRecord.status.is_not_distinct_from(stale.status)
            )
        )
    moment = now()
    row = {
        "account_id": principal().account_id,
        "key": key,
        "fingerprint": fingerprint,
        "creation_time": moment,
        "holder": holder,
        "lease_time": moment + LEASE,
    }
    statement = insert_or_ignore(transaction, IdempotencyRecord, row, index=["account_id", "key"])
    return transaction.execute(statement.returning(IdempotencyRecord.id)).scalar_one_or_none()


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
    """Without the database the record stays, and is known to stand for nothing by the end of this request."""
    try:
        with services().database.write() as transaction:
            transaction.execute(
                delete(IdempotencyRecord).where(IdempotencyRecord.id == claim, IdempotencyRecord.status.is_(None))
            )
    except SQLAlchemyError as error:
        log_failure(logger, f"cannot give an {HEADER} back", error)
