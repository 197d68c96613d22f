"""Stored secrets (docs/operations.md#secrets)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.infrastructure.secrets import SecretUnreadable, decrypt, encrypt

KEY = "a secret key of at least 32 characters"


@given(st.text())
def test_what_is_encrypted_opens_again(secret: str) -> None:
    assert decrypt(KEY, encrypt(KEY, secret)) == secret


def test_the_stored_form_holds_nothing_of_the_secret_and_differs_every_time() -> None:
    first, second = encrypt(KEY, "hunter2 hunter2"), encrypt(KEY, "hunter2 hunter2")
    assert first != second
    assert "hunter2" not in first


def test_another_secret_key_or_an_altered_text_does_not_open_it() -> None:
    stored = encrypt(KEY, "hunter2")
    with pytest.raises(SecretUnreadable):
        decrypt(KEY + "x", stored)
    with pytest.raises(SecretUnreadable):
        decrypt(KEY, stored[:-5] + "AAAA=")
