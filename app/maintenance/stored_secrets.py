"""The stored secrets of the installation: under which SECRET_KEY each is encrypted, and encrypting them anew
(docs/secrets.md#rotating-secret_key).

Every column that holds secrets says so itself (`Encrypted`), so that none is forgotten. They are read in slices and
written one by one, in transactions that take milliseconds. A secret is written only if it is still the one that was
read, and one under the newest key is left as it is: an interrupted run is simply begun again.
"""

from __future__ import annotations

import fcntl
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Column, Row, bindparam, select, update

from app.audit.record import Act, record_at_once
from app.clock import now
from app.db.database import Database
from app.db.models import Base, RunningProcess
from app.db.models.base import ENCRYPTED
from app.distribution import COMMAND_LINE
from app.infrastructure.heartbeat import SILENT
from app.infrastructure.installation_key import (
    ForeignSecretKey,
    check_secret_key,
    record_key,
    recorded_fingerprint,
)
from app.secret_keys import (
    SecretKeys,
    SecretUnreadable,
    decrypt_with_key,
    encrypt,
    fingerprint,
    generated_keys,
    short_fingerprint,
    write_generated_keys,
)
from app.services import Services

SLICE = 200
"""Secrets that are read and written at once."""
PASSES = 3
"""How often a rotation looks: processes that still encrypt under an older key may have written behind it."""

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class StoredSecrets:
    """How many there are by table and key, and by table how many none of the keys decrypts."""

    by_key: Counter[tuple[str, str]] = field(default_factory=Counter)
    unreadable: Counter[str] = field(default_factory=Counter)

    def under(self, key: str) -> int:
        """How many are under the key."""
        return sum(count for (_, stored_key), count in self.by_key.items() if stored_key == key)


def encrypted_columns() -> list[Column[str]]:
    """The columns that hold secrets, of all tables."""
    tables = sorted(Base.metadata.tables.values(), key=lambda table: table.name)
    return [column for table in tables for column in table.columns if column.info.get(ENCRYPTED)]


def count_secrets(database: Database, keys: SecretKeys) -> StoredSecrets:
    """Decrypts all of them: some 30 microseconds each."""
    counts = StoredSecrets()
    for column in encrypted_columns():
        for rows in _slices(database, column):
            _note(counts, column.table.name, keys, rows)
    return counts


def encrypt_anew(database: Database, keys: SecretKeys, advance: Advance) -> int:
    """Encrypts everything under the first key that another one decrypts; returns how many were written. What none of
    the keys decrypts stays as it is."""
    written = 0
    for _ in range(PASSES):
        before = written
        for column in encrypted_columns():
            for rows in _slices(database, column):
                written += _write(database, column, _renewed(keys, rows))
                advance(len(rows))
        if written == before:
            break
    return written


def _slices(database: Database, column: Column[str]) -> Iterator[list[Row[int, str]]]:
    row_id, last = _key(column), None
    while True:
        statement = select(row_id, column).where(column.is_not(None)).order_by(row_id).limit(SLICE)
        with database.read() as session:
            rows = list(session.execute(statement if last is None else statement.where(row_id > last)))
        if not rows:
            return
        yield rows
        last = rows[-1][0]


def _note(counts: StoredSecrets, table: str, keys: SecretKeys, rows: list[Row[int, str]]) -> None:
    for _, stored in rows:
        try:
            counts.by_key[table, decrypt_with_key(keys, stored)[0]] += 1
        except SecretUnreadable:
            counts.unreadable[table] += 1


def _renewed(keys: SecretKeys, rows: list[Row[int, str]]) -> list[dict[str, object]]:
    renewed: list[dict[str, object]] = []
    for row_id, stored in rows:
        try:
            key, secret = decrypt_with_key(keys, stored)
        except SecretUnreadable:
            continue
        if key != keys[0]:
            renewed.append({"row": row_id, "was": stored, "new": encrypt(keys[0], secret)})
    return renewed


def _write(database: Database, column: Column[str], renewed: list[dict[str, object]]) -> int:
    """One that was changed since it was read is not overwritten. Each is written by itself: whoever holds several
    entries of the send queue may wait for somebody who waits for them."""
    is_same = _key(column) == bindparam("row"), column == bindparam("was")
    statement = update(column.table).where(*is_same).values({column.name: bindparam("new")})
    written = 0
    for row in renewed:
        with database.write() as transaction:
            written += transaction.connection().execute(statement, row).rowcount
    return written


def _key(column: Column[str]) -> Column[int]:
    """The primary key of the column's table."""
    (key,) = column.table.primary_key.columns
    return key


# Rotating SECRET_KEY: no secret is encrypted under a key that a running process does not know
# (docs/secrets.md#rotating-secret_key).

WAIT_SECONDS = 60.0
"""Seconds for which the heartbeats of running processes are waited for."""
PAUSE_SECONDS = 0.5
LOCK_FILE = "secret_key.lock"
"""In the data folder; locked while keys are rotated or retired."""


class RotationRefused(Exception):
    """The keys cannot be rotated or retired now; the text is one line for the operator."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """The key that everything is encrypted under now. `written` secrets were not before."""

    key: str
    is_new: bool
    written: int
    stored: StoredSecrets


def processes_by_key(database: Database) -> list[tuple[RunningProcess, SecretKeys]]:
    """The processes that run, each with the short fingerprints of the keys that it knows; it signs with the first."""
    with database.read() as session:
        statement = select(RunningProcess).where(RunningProcess.seen_time > now() - SILENT)
        processes = list(session.scalars(statement.order_by(RunningProcess.name)))
    return [(process, tuple(filter(None, (process.secret_keys or "").split(",")))) for process in processes]


@dataclass(frozen=True, slots=True)
class Progress:
    """What is told of a rotation: what it waits for, and each piece."""

    waiting: Callable[[str], object]
    advance: Advance


@contextmanager
def _locked_keys(data_dir: Path) -> Iterator[None]:
    """Holds the lock of the generated keys: a command that writes back keys which it has read before another one added
    its own would lose that, with all that is encrypted under it. Raises `RotationRefused`, `OSError`."""
    with (data_dir / LOCK_FILE).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RotationRefused(
                "the keys are being rotated or retired by another command; wait until it ends"
            ) from None
        yield


def rotate(services: Services, progress: Progress) -> Rotation:
    """Encrypts all secrets under SECRET_KEY. A generated key is first replaced by a new one, unless an earlier rotation
    is unfinished. Raises `RotationRefused`, `OSError`."""
    with _locked_keys(services.settings.data_dir):
        return _rotate(services, progress)


def _rotate(services: Services, progress: Progress) -> Rotation:
    settings, database = services.settings, services.database
    try:
        check_secret_key(database, settings.secret_keys)
    except ForeignSecretKey as error:
        raise RotationRefused(str(error)) from None
    generated = generated_keys(settings.data_dir)
    keys = settings.secret_keys
    is_generated = settings.secret_key in generated
    if is_generated:
        keys = tuple(dict.fromkeys((*generated, *keys)))
    elif len(keys) == 1:
        raise RotationRefused(
            "SECRET_KEY has no fallbacks: add the new key to SECRET_KEY_FALLBACKS of all processes, restart them, then "
            "exchange the two"
        )
    before = count_secrets(database, keys)
    is_new = is_generated and not any(map(before.under, keys[1:]))
    if is_new:
        keys = _introduced(services, keys, generated, progress)
    else:
        _wait_until_known(database, keys[0], progress)
        if any(map(count_secrets(database, keys).under, keys[1:])):
            record_at_once(database, Act("secret_key.rotated", object_id=short_fingerprint(keys[0])))
    record_key(database, keys[0])
    written = encrypt_anew(database, keys, progress.advance)
    return Rotation(keys[0], is_new, written, count_secrets(database, keys))


def _introduced(services: Services, keys: SecretKeys, generated: SecretKeys, progress: Progress) -> SecretKeys:
    """Generates a key, which is used once all running processes know it: first it is a fallback."""
    new, folder = secrets.token_urlsafe(48), services.settings.data_dir
    write_generated_keys(folder, (generated[0], new, *generated[1:]))
    try:
        _wait_until_known(services.database, new, progress)
        record_at_once(services.database, Act("secret_key.rotated", object_id=short_fingerprint(new)))
    except BaseException:
        _remove(folder, new)
        raise
    write_generated_keys(folder, (new, *generated))
    return new, *keys


def _remove(folder: Path, key: str) -> None:
    write_generated_keys(folder, tuple(each for each in generated_keys(folder) if each != key))


def _wait_until_known(database: Database, key: str, progress: Progress) -> None:
    name, deadline, told = short_fingerprint(key), time.monotonic() + WAIT_SECONDS, False
    while True:
        without = [process for process, fingerprints in processes_by_key(database) if name not in fingerprints]
        if not without:
            return
        if time.monotonic() > deadline:
            raise RotationRefused(_reason(name, without))
        if not told:
            progress.waiting(f"waiting until all running processes know the key {name}")
            told = True
        time.sleep(PAUSE_SECONDS)


def _reason(name: str, without: list[RunningProcess]) -> str:
    first = without[0]
    others = f" and {len(without) - 1} more" if without[1:] else ""
    return (
        f"the process {first.name} ({first.roles} on {first.host}){others} does not know the key {name}: add it to "
        "SECRET_KEY_FALLBACKS there, and restart it"
    )


def adopt(services: Services) -> None:
    """Makes SECRET_KEY the key of the installation, where nobody has the one that was recorded."""
    key = services.settings.secret_key
    record_at_once(services.database, Act("secret_key.adopted", object_id=short_fingerprint(key)))
    record_key(services.database, key)


def check_retirable(services: Services, key: str) -> None:
    """Raises `RotationRefused` while the key is still needed for more than verifying."""
    keys, name = services.settings.secret_keys, short_fingerprint(key)
    generated = generated_keys(services.settings.data_dir)
    if key in (keys[0], *generated[:1]):
        raise RotationRefused(f"{name} is the current key; rotate it first")
    if recorded_fingerprint(services.database) == fingerprint(key):
        raise RotationRefused(f"{name} is the key of the installation; run `{COMMAND_LINE} secrets rotate` first")
    if remaining := count_secrets(services.database, keys).under(key):
        raise RotationRefused(
            f"encrypted under {name}: {remaining} of the stored secrets; run `{COMMAND_LINE} secrets rotate` first"
        )
    for process, fingerprints in processes_by_key(services.database):
        if fingerprints[:1] == (name,):
            raise RotationRefused(
                f"the process {process.name} ({process.roles}) still signs with {name}: restart it first"
            )


def retire(services: Services, key: str) -> bool:
    """Forgets a generated key; returns whether it was one. Raises `RotationRefused`, `OSError`."""
    folder = services.settings.data_dir
    with _locked_keys(folder):
        check_retirable(services, key)
        if key not in generated_keys(folder):
            return False
        record_at_once(services.database, Act("secret_key.retired", object_id=short_fingerprint(key)))
        _remove(folder, key)
    return True
