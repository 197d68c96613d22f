"""Encryption of stored secrets with a key derived from SECRET_KEY (docs/operations.md#secrets)."""

from __future__ import annotations

import base64
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

PURPOSE = b"transactional-messaging-service stored secrets 1"
"""Binds the derived key to this use: SECRET_KEY also signs tokens, with other derived keys."""


class SecretUnreadable(Exception):
    """A stored secret that this SECRET_KEY does not decrypt."""


def encrypt(secret_key: str, secret: str) -> str:
    """The secret as a Fernet token, to be stored."""
    return _fernet(secret_key).encrypt(secret.encode()).decode("ascii")


def decrypt(secret_key: str, stored: str) -> str:
    """The secret behind a stored token. Raises `SecretUnreadable` when it was stored under another SECRET_KEY."""
    try:
        return _fernet(secret_key).decrypt(stored).decode()
    except InvalidToken:
        raise SecretUnreadable("a stored secret was encrypted under another SECRET_KEY") from None


@lru_cache(maxsize=8)
def _fernet(secret_key: str) -> Fernet:
    derived = HKDF(SHA256(), length=32, salt=None, info=PURPOSE).derive(secret_key.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
