"""Keyed hashes of addresses."""

from __future__ import annotations

from app.addresses import normalize_address
from app.infrastructure.digests import address_digest, address_digests

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
