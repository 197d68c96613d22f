"""Idempotency keys: a repeated POST gets the first response again (docs/requests.md#idempotency).

A key is claimed in a separate transaction, so that a second request sees it at once; the response is stored in the
transaction of the work itself, so that neither exists without the other. Only successful responses are stored: after an
error nothing was written, and the key is free again.

A claim names its request and ends with it, however the request ended. If the database's answer to the commit was lost,
the database decides whether the work was done: the work keeps its record locked until the commit or rollback, and
another request with the key waits for that lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from flask import Response, request
from sqlalchemy import delete, select, tuple_, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.clock import now
from app.db.bounded_connection import limit_waits, repeatable_commits
from app.db.bulk import insert_new_rows
from app.db.database import Database, Transaction
from app.db.models import IdempotencyRecord
from app.db.outage import is_locked, is_unavailable, log_failure
from app.errors import ServiceError
from app.http.context import principal, services
from app.http.repetition import waits_for_another_request
from app.http.responses import JSON
from app.infrastructure.digests import keyed_digest, keyed_digests
from app.infrastructure.liveness import new_process_name
from app.secret_keys import SecretKeys

logger = logging.getLogger(__name__)


# Locks of requests that have claimed an idempotency key: every process of the machine can tell whether one has ended.
#
# Each process has a file, with a lock on the first byte for as long as it lives and a lock on one more byte per
# request. The operating system releases locks when a process dies, so none outlives its request, whatever ended it.
# They are `fcntl` locks, which belong to a process: it must not open its own file twice.

LOCK_FILE_SUFFIX = ".requests"
DEAD_FILE_SECONDS = 3600
"""Seconds for which the file of a dead process is kept: it shows that its claims have ended. Longer than any lease."""


class IdempotencyLocks:
    """The locks of this process."""

    def __init__(self, folder: Path) -> None:
        self.name = new_process_name()
        self._folder = folder
        self._numbers = itertools.count(1)
        self._active: set[int] = set()
        self._descriptor = self._open()

    def _open(self) -> int | None:
        """None if the folder cannot be written: then other processes wait for the lease of a request to end."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _delete_stale_files(self._folder)
            return _make_locked_file(self._folder / f"{self.name}{LOCK_FILE_SUFFIX}")
        except OSError as error:
            logger.warning("cannot keep %s: %s", self._folder, error)
            return None

    @contextlib.contextmanager
    def acquire(self) -> Iterator[str]:
        """Locks a byte for the block; yields the name of the request, which is the holder of its claim."""
        number = next(self._numbers)
        self._active.add(number)
        self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, number)
        try:
            yield f"{self.name}:{number}"
        finally:
            self._lock(fcntl.LOCK_UN, number)
            self._active.discard(number)

    def _lock(self, how: int, number: int) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._descriptor, how, 1, number)

    def has_ended(self, holder: str) -> bool | None:
        """Whether the request of that name has ended; None for a request of another machine."""
        name, _, number = holder.rpartition(":")
        if not number.isdigit() or not name or "/" in name:
            return None
        if name == self.name:
            return int(number) not in self._active
        try:
            descriptor = os.open(self._folder / f"{name}{LOCK_FILE_SUFFIX}", os.O_RDWR)
        except OSError:
            return None
        try:
            return _is_unlocked(descriptor, int(number))
        finally:
            os.close(descriptor)


_creation = threading.Lock()


def idempotency_locks(folder: Path) -> IdempotencyLocks:
    """The locks of this process in that folder, created once."""
    with _creation:
        return _create(folder, os.getpid())


@cache
def _create(folder: Path, _process: int) -> IdempotencyLocks:
    return IdempotencyLocks(folder)


def _make_locked_file(path: Path) -> int:
    """The descriptor of a new file with a lock on its first byte. A process that looks for stale files may have that
    lock first, but only while it looks."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, 0)
    except OSError:
        path.unlink()  # without a lock it would say that this process is dead
        os.close(descriptor)
        raise
    return descriptor


def _is_unlocked(descriptor: int, number: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
    except OSError:
        return False
    return True


def _delete_stale_files(folder: Path) -> None:
    """Deletes files of processes that died long ago. The first process that finds the owner dead writes one byte, which
    sets the time of modification."""
    for path in folder.glob(f"*{LOCK_FILE_SUFFIX}"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR)
            try:
                if not _is_unlocked(descriptor, 0):
                    continue
                status = os.fstat(descriptor)
                age = time.time() - status.st_mtime
                if status.st_size and age > DEAD_FILE_SECONDS:
                    path.unlink()
                elif not status.st_size and age > 1:
                    os.write(descriptor, b"\n")
            finally:
                os.close(descriptor)


# The fingerprint by which a repeated request is recognised (docs/requests.md#idempotency).


@dataclass(frozen=True, slots=True)
class RequestFingerprint:
    """The fingerprint of the current request, and the keys under which it may have been stored."""

    digest: str
    """SHA-256 of all that must be the same in a repeated request: method, path with query, and body."""
    secret_keys: SecretKeys
    is_keyed: bool = False
    """Whether a new record has it keyed: if the body has secret values, which may be short enough to be guessed from a
    hash. For other requests it is not, because processes of the release before, which answer beside those of this one
    during an upgrade, would take a keyed one for that of another request."""

    @classmethod
    def for_current_request(cls, secret_keys: SecretKeys) -> RequestFingerprint:
        """The fingerprint of the request being handled. A trailing slash makes no difference
        (docs/requests.md#idempotency)."""
        path = request.path.rstrip("/")
        target = path.encode("utf-8", "surrogatepass") + b"?" + request.query_string
        parts = (request.method.encode(), target, request.get_data(cache=True))
        return cls(hashlib.sha256(b"\n".join(parts)).hexdigest(), secret_keys)

    @property
    def stored(self) -> str:
        """The fingerprint as a new record has it."""
        return keyed_digest(self.secret_keys[0], self.digest) if self.is_keyed else self.digest

    def is_of(self, stored: str) -> bool:
        """Whether the stored fingerprint is that of this request, under whichever key."""
        return stored == self.digest or stored in keyed_digests(self.secret_keys, self.digest)


Work = Callable[[Transaction], Response]
"""The work of a request whose body has been validated."""


@dataclass(frozen=True, slots=True)
class SecretWork:
    """The work of a request with secret values (docs/secret-values.md)."""

    work: Work

    def __call__(self, transaction: Transaction) -> Response:
        """Runs the work."""
        return self.work(transaction)


HEADER = "Idempotency-Key"
KEY = re.compile(r"[\x21-\x7e]{1,255}")
LEASE = timedelta(minutes=1)
"""Longer than a request takes after its body was read; one that takes longer is rolled back (`_store_response`)."""
CLAIM_ATTEMPTS = 3
"""A claim that waits for another transaction may fail because of a record that is free once it can be read: its request
has ended, or it was deleted."""
MIN_RETRY_SECONDS = 1
"""Seconds after which a request of this machine may have ended."""
RELEASE_SECONDS, RELEASE_PAUSE = 2.0, 0.25
"""Seconds that the release of claims waits for a database that was unavailable, and between two attempts."""
LOOK_PAUSE = 1.0
"""Seconds between two looks for claims that may still be committed."""
MAX_RELEASED, MAX_UNRELEASED = 500, 10_000
"""Claims of one statement, and of one process."""


def idempotent(prepare: Callable[[], Work]) -> Response:
    """Runs the work that `prepare` reads from the request, in one writing transaction, or returns its first response
    again.

    A stored response is returned unchanged, whatever has changed in the account since. Raises
    `invalid_request` for a malformed key, `conflict` for a key that was used with another request or whose first
    request is still in progress.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return services().database.transact(prepare())
    if not KEY.fullmatch(key):
        raise ServiceError("invalid_request", detail=f"{HEADER} must be 1 to 255 visible ASCII characters.")
    fingerprint = RequestFingerprint.for_current_request(services().settings.secret_keys)
    with services().database.read() as session:
        record = _find(session, key)
    if (
        record is not None
        and record.status is not None
        and fingerprint.is_of(record.fingerprint)
        and not _is_old(record)
    ):
        return _replay(record)
    return _run_first(key, fingerprint, record, prepare())


def _run_first(key: str, fingerprint: RequestFingerprint, record: IdempotencyRecord | None, work: Work) -> Response:
    """Claims the key and runs the work, unless another request has done so."""
    fingerprint = replace(fingerprint, is_keyed=isinstance(work, SecretWork))
    with _locks().acquire() as holder, _released_on_outage(key, holder):
        claim = _claim_or_replay(key, fingerprint, record, holder)
        if isinstance(claim, Response):
            return claim

        def work_and_store(transaction: Transaction) -> Response:
            response = work(transaction)
            _store_response(transaction, claim, response)
            return response

        try:
            return services().database.transact(work_and_store)
        except BaseException as error:
            # Waiting for the server or for SQLite's file once more would keep the client too long.
            if not (is_locked(error) or (services().database.is_server and is_unavailable(error))):
                _release_claim(claim)
            raise


@contextlib.contextmanager
def _released_on_outage(key: str, holder: str) -> Iterator[None]:
    """Has the claim released later if the database fails the request, even if nobody knows whether it was made."""
    database, account_id = services().database, principal().account_id
    try:
        yield
    except SQLAlchemyError as error:
        if database.is_server and is_unavailable(error):
            _unreleased.add(database, Claim(account_id, key, holder))
        raise


def _locks() -> IdempotencyLocks:
    return idempotency_locks(services().settings.data_dir / "requests")


def _claim_or_replay(
    key: str, fingerprint: RequestFingerprint, row: IdempotencyRecord | None, holder: str
) -> int | Response:
    """The id of the record by which this request has claimed the key, or the stored response. `row` is the record that
    was read before."""
    if _is_free(row):
        with repeatable_commits(), services().database.write() as transaction:
            for _ in range(CLAIM_ATTEMPTS):
                claim = _claim(transaction, key, fingerprint.stored, holder, row)
                if claim is not None:
                    return claim
                row = _find(transaction, key)
                if not _is_free(row):
                    break
    if row is not None and not fingerprint.is_of(row.fingerprint):
        raise ServiceError(
            "conflict", detail=f"This {HEADER} was used with another request.", retry_after=_retry_after(row)
        )
    if row is not None and row.status is not None:
        return _replay(row)
    if not _is_local(row):
        if waits_for_another_request():
            return Response()  # to nobody: the server repeats the request
        if services().database.has_failed_within(LEASE.total_seconds()):
            detail = (
                f"It is not yet known whether the first request with this {HEADER} has ended, because the database was "
                "unavailable."
            )
            raise ServiceError("service_unavailable", detail=detail)
    detail = f"The first request with this {HEADER} is still in progress."
    raise ServiceError("conflict", detail=detail, retry_after=_retry_after(row))


def _is_free(row: IdempotencyRecord | None) -> bool:
    """Whether the key can be claimed: it has no record, an old one, or one whose request has ended without a
    response."""
    if row is None:
        return True
    if row.status is not None:
        return _is_old(row)
    return _lease_left(row) <= timedelta() or _locks().has_ended(row.holder or "") is True


def _lease_left(row: IdempotencyRecord) -> timedelta:
    return (row.lease_time or row.creation_time + LEASE) - now()


def _retry_after(row: IdempotencyRecord | None) -> int | None:
    """Seconds after which a repeated request may find the key free; None if it never will."""
    if row is not None and row.status is not None:
        return None
    if row is None or _is_local(row):
        return MIN_RETRY_SECONDS
    return max(MIN_RETRY_SECONDS, math.ceil(_lease_left(row).total_seconds()))


def _is_local(row: IdempotencyRecord | None) -> bool:
    """Whether this machine can tell that the request with the key has ended."""
    return row is None or _locks().has_ended(row.holder or "") is not None


def _replay(row: IdempotencyRecord) -> Response:
    return Response(row.body, row.status, {"Idempotent-Replayed": "true"}, content_type=JSON)


def _is_old(row: IdempotencyRecord) -> bool:
    retention = services().settings.retain_idempotency
    return retention is not None and row.creation_time < now() - retention


def _find(session: Session, key: str) -> IdempotencyRecord | None:
    statement = select(IdempotencyRecord).where(
        IdempotencyRecord.account_id == principal().account_id, IdempotencyRecord.key == key
    )
    return session.execute(statement).scalar_one_or_none()


def _claim(
    transaction: Transaction, key: str, fingerprint: str, holder: str, stale: IdempotencyRecord | None
) -> int | None:
    """The id of a new record, None if another request has the key. A stale record is deleted, unless its request
    has stored a response since the record was read."""
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
    claimed = insert_new_rows(transaction, IdempotencyRecord, [row], returning=("id",))
    return claimed[0][0] if claimed else None


def _store_response(transaction: Transaction, claim: int, response: Response) -> None:
    """Raises `conflict`, which rolls the work back, if another request has claimed the key meanwhile."""
    updated = transaction.execute(
        update(IdempotencyRecord)
        .where(IdempotencyRecord.id == claim)
        .values(status=response.status_code, body=response.get_data(as_text=True))
        .returning(IdempotencyRecord.id)
    )
    if updated.first() is None:
        raise ServiceError(
            "conflict", detail=f"This request took so long that its {HEADER} was released for a later request."
        )


def _release_claim(claim: int) -> None:
    """If the database is unavailable the record stays; it is stale once this request has ended."""
    try:
        with repeatable_commits(), services().database.write() as transaction:
            transaction.execute(
                delete(IdempotencyRecord).where(IdempotencyRecord.id == claim, IdempotencyRecord.status.is_(None))
            )
    except SQLAlchemyError as error:
        log_failure(logger, f"cannot release an {HEADER}", error)


class Claim(NamedTuple):
    """The key of an account, and the request that has claimed it."""

    account_id: int
    key: str
    holder: str


class UnreleasedClaims:
    """The claims of requests that have failed with their database. A thread releases them as soon as it is back: other
    machines cannot see that the requests have ended. One that is not there may still be committed, so it is looked for
    until its lease has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[Claim, float] = {}
        """Claim -> when its lease ends, on the monotonic clock."""
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def add(self, database: Database, claim: Claim) -> None:
        """Releases the claim as soon as possible; beyond a number of them, it ends with its lease."""
        with self._lock:
            if len(self._claims) >= MAX_UNRELEASED:
                return
            self._claims[claim] = time.monotonic() + LEASE.total_seconds()
            if self._thread is None:
                self._ended.clear()
                self._thread = threading.Thread(target=self._run, args=(database,), name="claims", daemon=True)
                self._thread.start()
                database.before_close.add(self.end)

    def end(self) -> None:
        """Ends the thread before its database is closed, and leaves the claims to the end of their leases."""
        self._ended.set()
        if (thread := self._thread) is not None:
            thread.join()

    def _run(self, database: Database) -> None:
        while claims := self._current():
            pause = RELEASE_PAUSE
            with contextlib.suppress(SQLAlchemyError), limit_waits(RELEASE_SECONDS):
                self._forget(claims, database.transact(partial(_delete_claims, claims=claims)))
                pause = LOOK_PAUSE
            self._ended.wait(pause)

    def _forget(self, claims: Sequence[Claim], released: Collection[Claim]) -> None:
        """Forgets those that are released; the others come behind those that were not tried yet."""
        with self._lock:
            for claim in claims:
                end = self._claims.pop(claim)
                if claim not in released:
                    self._claims[claim] = end

    def _current(self) -> list[Claim]:
        """Claims whose lease has not ended, as many as one statement deletes; without any the thread ends."""
        with self._lock:
            moment = math.inf if self._ended.is_set() else time.monotonic()
            self._claims = {claim: end for claim, end in self._claims.items() if end > moment}
            if not self._claims:
                self._thread = None
            return list(itertools.islice(self._claims, MAX_RELEASED))


def _delete_claims(transaction: Transaction, claims: Sequence[Claim]) -> set[Claim]:
    """The claims that were there, and are deleted now."""
    names = (IdempotencyRecord.account_id, IdempotencyRecord.key, IdempotencyRecord.holder)
    unfinished = delete(IdempotencyRecord).where(tuple_(*names).in_(claims), IdempotencyRecord.status.is_(None))
    rows = transaction.execute(unfinished.returning(*names), execution_options={"synchronize_session": False})
    return {Claim(account_id, key, holder or "") for account_id, key, holder in rows}


_unreleased = UnreleasedClaims()
