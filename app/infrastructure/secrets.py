"""Encryption of stored secrets with a key derived from SECRET_KEY (docs/operations.md#secrets)."""

from __future__ import annotations

import base64
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.secret_keys import SecretKeys

PURPOSE = b"transactional-messaging-service stored secrets 1"
"""Binds the derived key to this use: SECRET_KEY also signs tokens, with other derived keys."""


class SecretUnreadable(Exception):
    """A stored secret that neither SECRET_KEY nor one of its fallbacks decrypts."""


def encrypt(secret_key: str, secret: str) -> str:
    """The secret as a Fernet token, to be stored."""
    return _fernet(secret_key).encrypt(secret.encode()).decode("ascii")


def decrypt(secret_keys: SecretKeys, stored: str) -> str:
    """The secret behind a stored token. Raises `SecretUnreadable` when it was stored under none of these keys."""
    return decrypt_with_key(secret_keys, stored)[1]


def decrypt_with_key(secret_keys: SecretKeys, stored: str) -> tuple[str, str]:
    """The key under which the secret was stored, and the secret. Raises `SecretUnreadable`."""
    for key in secret_keys:
        try:
            return key, _fernet(key).decrypt(stored).decode()
        except InvalidToken:
            continue
    raise SecretUnreadable("a stored secret was encrypted under another SECRET_KEY")


@lru_cache(maxsize=32)
def _fernet(secret_key: str) -> Fernet:
    derived = HKDF(SHA256(), length=32, salt=None, info=PURPOSE).derive(secret_key.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
