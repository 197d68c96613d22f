"""Keyed digests of contents, for records that must recognise a content without telling anything about it.

Whoever has a copy of the database could otherwise guess a short secret or an address, hash the content that would have
it, and compare. The key is derived from SECRET_KEY.
"""

from __future__ import annotations

import hmac
from functools import lru_cache

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.secret_keys import SecretKeys

PURPOSE = b"transactional-messaging-service content digests 1"
"""Binds the derived key to this use."""
PREFIX = "hmac:"
"""Tells keyed digests from others."""


def keyed_digest(secret_key: str, digest: str) -> str:
    """The keyed digest of a content whose SHA-256 this is. One that is keyed stays as it is."""
    if digest.startswith(PREFIX):
        return digest
    return PREFIX + hmac.digest(_key(secret_key), digest.encode("ascii"), "sha256").hex()


def keyed_digests(secret_keys: SecretKeys, digest: str) -> list[str]:
    """All by which a record may know the content: it has that of the SECRET_KEY of its time."""
    return [keyed_digest(key, digest) for key in secret_keys]


@lru_cache(maxsize=32)
def _key(secret_key: str) -> bytes:
    return HKDF(SHA256(), length=32, salt=None, info=PURPOSE).derive(secret_key.encode())
