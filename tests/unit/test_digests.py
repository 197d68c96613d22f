"""Keyed hashes of addresses and of contents."""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.addresses import normalize_address
from app.infrastructure.digests import PREFIX, address_digest, address_digests, keyed_digest

KEY = "a secret key of at least 32 characters"
ANN = normalize_address("email", "ann@example.com")


def test_an_address_has_one_digest_however_it_is_written() -> None:
    digest = address_digest(KEY, ANN)
    assert digest == address_digest(KEY, normalize_address("email", "Ann@Example.COM"))
    assert len(digest) == 64
    assert int(digest, 16)


def test_another_address_kind_or_secret_key_gives_another_digest() -> None:
    number = "61411111111"
    digests = {
        address_digest(KEY, ANN),
        address_digest(KEY, normalize_address("email", "anne@example.com")),
        address_digest(KEY, normalize_address("email", number)),
        address_digest(KEY, normalize_address("mobile", number)),
        address_digest(KEY + "x", ANN),
    }
    assert len(digests) == 5


def test_an_address_is_recognised_under_a_former_secret_key() -> None:
    before = address_digest(KEY, ANN)
    assert address_digests((KEY + "x", KEY), ANN) == [address_digest(KEY + "x", ANN), before]


def test_addresses_and_contents_are_hashed_with_keys_of_their_own() -> None:
    content = hashlib.sha256(b"a body").hexdigest()
    expected = [
        digest_with(purpose, text) for purpose, text in (("address", "email\0ann@example.com"), ("content", content))
    ]
    assert [address_digest(KEY, ANN), keyed_digest(KEY, content).removeprefix(PREFIX)] == expected


def digest_with(use: str, text: str) -> str:
    """The hash of the text with the key that is derived for the use."""
    purpose = f"transactional-messaging-service {use} digests 1".encode()
    key = HKDF(SHA256(), length=32, salt=None, info=purpose).derive(KEY.encode())
    return hmac.new(key, text.encode(), "sha256").hexdigest()
