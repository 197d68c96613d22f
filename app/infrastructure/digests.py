"""Keyed digests: of addresses and of contents, for records that must recognise one without holding it."""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable
from functools import lru_cache, partial

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.addresses import NormalizedAddress, address_forms
from app.secret_keys import SecretKeys, SecretUnreadable, decrypt, encrypt
from app.settings import Settings

logger = logging.getLogger(__name__)


ADDRESS_PURPOSE = b"transactional-messaging-service address digests 1"
CONTENT_PURPOSE = b"transactional-messaging-service content digests 1"
"""Each binds a derived key to one use."""


def address_digest(secret_key: str, address: NormalizedAddress) -> str:
    """The keyed hash of the address, 64 hexadecimal digits. Two forms of one address, as people write it, are the same
    once they are normalized (`app.addresses.normalize_address`)."""
    text = f"{address.kind}\0{address.key}".encode("utf-8", "surrogatepass")
    return hmac.digest(_key(secret_key, ADDRESS_PURPOSE), text, "sha256").hex()


def address_digests(secret_keys: SecretKeys, address: NormalizedAddress) -> list[str]:
    """All hashes by which a record may know the address: it has that of the SECRET_KEY of its time, and of the form in
    which addresses were compared then."""
    forms = [NormalizedAddress(address.kind, form) for form in address_forms(address.key)]
    return [address_digest(key, form) for key in secret_keys for form in forms]


@lru_cache(maxsize=64)
def _key(secret_key: str, purpose: bytes) -> bytes:
    return HKDF(SHA256(), length=32, salt=None, info=purpose).derive(secret_key.encode())


def new_digest_key(secret_key: str) -> str:
    """A random key, as it is stored."""
    return encrypt(secret_key, secrets.token_urlsafe(32))


def open_digest_key(settings: Settings, stored: str) -> Callable[[NormalizedAddress], str] | None:
    """The function that makes digests. None for a key that was stored under another SECRET_KEY: the service goes on
    without these suppressions, and says so."""
    try:
        return partial(address_digest, decrypt(settings.secret_keys, stored))
    except SecretUnreadable as error:
        logger.error("suppressions of forgotten addresses do not apply: %s", error)
        return None


PREFIX = "hmac:"
"""Tells keyed digests from others."""


def keyed_digest(secret_key: str, digest: str) -> str:
    """The keyed digest of a content whose SHA-256 this is. One that is keyed stays as it is."""
    if digest.startswith(PREFIX):
        return digest
    return PREFIX + hmac.digest(_key(secret_key, CONTENT_PURPOSE), digest.encode("ascii"), "sha256").hex()


def keyed_digests(secret_keys: SecretKeys, digest: str) -> list[str]:
    """All by which a record may know the content: it has that of the SECRET_KEY of its time."""
    return [keyed_digest(key, digest) for key in secret_keys]
