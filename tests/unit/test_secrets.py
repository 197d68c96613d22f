"""Stored secrets (docs/secrets.md#what-is-encrypted)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.secret_keys import SecretUnreadable, decrypt, decrypt_with_key, encrypt

KEY = "a secret key of at least 32 characters"


@given(st.text())
def test_decryption_returns_the_encrypted_text(secret: str) -> None:
    assert decrypt((KEY,), encrypt(KEY, secret)) == secret


def test_the_stored_form_differs_every_time_and_contains_nothing_of_the_secret() -> None:
    first, second = encrypt(KEY, "hunter2 hunter2"), encrypt(KEY, "hunter2 hunter2")
    assert first != second
    assert "hunter2" not in first


def test_every_listed_key_decrypts_and_names_itself() -> None:
    keys = (KEY, KEY + "x", KEY + "y")
    for key in keys:
        assert decrypt_with_key(keys, encrypt(key, "hunter2")) == (key, "hunter2")
    with pytest.raises(SecretUnreadable):
        decrypt(keys, encrypt(KEY + "z", "hunter2"))


def test_decryption_fails_with_another_key_or_a_changed_text() -> None:
    stored = encrypt(KEY, "hunter2")
    with pytest.raises(SecretUnreadable):
        decrypt((KEY + "x",), stored)
    with pytest.raises(SecretUnreadable):
        decrypt((KEY,), stored[:-5] + "AAAA=")
