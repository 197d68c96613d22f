"""Keyed hashes of addresses, for records that must recognise an address without holding it.

The key is derived from SECRET_KEY: without it nobody can try all mobile numbers, or a list of email addresses, against
the hashes. The same address has the same hash in every account.
"""

from __future__ import annotations

import hmac
from functools import lru_cache

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.addresses import NormalizedAddress, address_forms
from app.secret_keys import SecretKeys

PURPOSE = b"transactional-messaging-service address digests 1"
"""Binds the derived key to this use."""


def address_digest(secret_key: str, address: NormalizedAddress) -> str:
    """The keyed hash of the address, 64 hexadecimal digits. Two forms of one address, as people write it, are the same
    once they are normalized (`app.addresses.normalize_address`)."""
    text = f"{address.kind}\0{address.key}".encode("utf-8", "surrogatepass")
    return hmac.digest(_key(secret_key), text, "sha256").hex()


def address_digests(secret_keys: SecretKeys, address: NormalizedAddress) -> list[str]:
    """All hashes by which a record may know the address: it has that of the SECRET_KEY of its time, and of the form in
    which addresses were compared then."""
    forms = [NormalizedAddress(address.kind, form) for form in address_forms(address.key)]
    return [address_digest(key, form) for key in secret_keys for form in forms]


@lru_cache(maxsize=32)
def _key(secret_key: str) -> bytes:
    return HKDF(SHA256(), length=32, salt=None, info=PURPOSE).derive(secret_key.encode())
