"""The stored secrets of the installation: under which SECRET_KEY each is encrypted, and encrypting them anew
(docs/operations.md#rotating-secret_key).

Every column that holds secrets says so itself (`Encrypted`), so that none is forgotten. They are read in slices and
written one by one, in transactions that take milliseconds. A secret is written only if it is still the one that was
read, and one under the newest key is left as it is: an interrupted run is simply begun again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sqlalchemy import Column, Row, bindparam, select, update

from app.db.database import Database
from app.db.models import Base
from app.db.models.base import ENCRYPTED
from app.infrastructure.secrets import SecretUnreadable, decrypt_with_key, encrypt
from app.secret_keys import SecretKeys

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
        return sum(count for (_, one), count in self.by_key.items() if one == key)


def encrypted_columns() -> list[Column[str]]:
    """The columns that hold secrets, of all tables."""
    tables = sorted(Base.metadata.tables.values(), key=lambda table: table.name)
    return [column for table in tables for column in table.columns if column.info.get(ENCRYPTED)]


def count_secrets(database: Database, keys: SecretKeys) -> StoredSecrets:
    """Decrypts all of them: some 30 microseconds each."""
    found = StoredSecrets()
    for column in encrypted_columns():
        for rows in _slices(database, column):
            _note(found, column.table.name, keys, rows)
    return found


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


def _note(found: StoredSecrets, table: str, keys: SecretKeys, rows: list[Row[int, str]]) -> None:
    for _, stored in rows:
        try:
            found.by_key[table, decrypt_with_key(keys, stored)[0]] += 1
        except SecretUnreadable:
            found.unreadable[table] += 1


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
    for one in renewed:
        with database.write() as transaction:
            written += transaction.connection().execute(statement, one).rowcount
    return written


def _key(column: Column[str]) -> Column[int]:
    """The primary key of the column's table."""
    (key,) = column.table.primary_key.columns
    return key
