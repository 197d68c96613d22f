"""The SECRET_KEY of the installation: the database has a fingerprint of it (docs/secrets.md#one-key-for-all-hosts).

A process with another one could read nothing that is stored encrypted, and nobody else would accept what it signs.
"""

from __future__ import annotations

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from app.db.database import Database, Transaction
from app.db.models import InstallationKey
from app.distribution import COMMAND_LINE
from app.secret_keys import SecretKeys, fingerprint, short_fingerprint


class ForeignSecretKey(Exception):
    """A process does not have the key of the installation; the text is one line for the operator."""


def check_secret_key(database: Database, keys: SecretKeys) -> None:
    """Raises `ForeignSecretKey` unless the key of the installation is among these, and `SQLAlchemyError`. The first
    process or command of an installation records its own."""
    if recorded_fingerprint(database) is None:
        try:
            with database.write() as transaction:
                _insert(transaction, keys[0])
        except IntegrityError:
            pass  # another process was first
    compare_secret_key(database, keys)


def compare_secret_key(database: Database, keys: SecretKeys) -> bool:
    """Whether one of these keys is recorded; False if none is yet, as after a restore. Raises `ForeignSecretKey` if it
    is another one, and `SQLAlchemyError`."""
    recorded = recorded_fingerprint(database)
    if recorded is not None and recorded not in map(fingerprint, keys):
        raise ForeignSecretKey(
            f"SECRET_KEY ({short_fingerprint(keys[0])}) is not the installation's key ({recorded[:8]}): set it to "
            f"that key or add that to SECRET_KEY_FALLBACKS; if it is lost, run `{COMMAND_LINE} secrets adopt`"
        )
    return recorded is not None


def recorded_fingerprint(database: Database) -> str | None:
    """The fingerprint of the key of the installation; None if no process has started yet. Raises `SQLAlchemyError`."""
    with database.read() as session:
        return session.scalar(select(InstallationKey.fingerprint))


def record_key(database: Database, key: str) -> None:
    """Makes it the key of the installation. Raises `SQLAlchemyError`."""
    with database.write() as transaction:
        forget_key(transaction)
        _insert(transaction, key)


def forget_key(transaction: Transaction) -> None:
    """The next process that starts records its own."""
    transaction.connection().execute(delete(InstallationKey))


def _insert(transaction: Transaction, key: str) -> None:
    transaction.connection().execute(insert(InstallationKey).values(id=1, fingerprint=fingerprint(key)))
