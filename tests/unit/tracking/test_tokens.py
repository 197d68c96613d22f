"""Tracking tokens identify a recipient and cannot be forged."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tracking.tokens import UNSUBSCRIBE_PURPOSE, recipient_from_token, recipient_token
from tests.support.cases import each

KEY = "a secret of the tests, long enough to sign"


@given(st.integers(1, 2**63 - 1))
def test_a_token_identifies_its_recipient(recipient_id: int) -> None:
    """A token is short enough for a text message."""
    token = recipient_token(KEY, UNSUBSCRIBE_PURPOSE, recipient_id)
    assert 15 <= len(token) <= 24
    assert recipient_from_token((KEY,), UNSUBSCRIBE_PURPOSE, token) == recipient_id


def test_a_token_with_another_key_or_purpose_is_invalid() -> None:
    """A token of one kind of link is none of another kind."""
    token = recipient_token(KEY, UNSUBSCRIBE_PURPOSE, 7)
    assert recipient_from_token((KEY + "x",), UNSUBSCRIBE_PURPOSE, token) is None
    assert recipient_from_token((KEY,), "another", token) is None


def test_tokens_of_every_listed_key_are_valid() -> None:
    keys = (KEY, KEY + "x")
    for key in keys:
        assert recipient_from_token(keys, UNSUBSCRIBE_PURPOSE, recipient_token(key, UNSUBSCRIBE_PURPOSE, 7)) == 7
    assert recipient_from_token(keys, UNSUBSCRIBE_PURPOSE, recipient_token(KEY + "y", UNSUBSCRIBE_PURPOSE, 7)) is None


@given(st.integers(1, 2**40), st.data())
def test_a_changed_token_is_invalid(recipient_id: int, data: st.DataObject) -> None:
    """Each character counts."""
    token = recipient_token(KEY, UNSUBSCRIBE_PURPOSE, recipient_id)
    position = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from("ABCxyz0189-_").filter(lambda character: character != token[position]))
    assert recipient_from_token((KEY,), UNSUBSCRIBE_PURPOSE, token[:position] + other + token[position + 1 :]) is None


@pytest.mark.parametrize("recipient_id", [1, 300, 70_000])
def test_the_unused_bits_of_the_last_base64_character_count(recipient_id: int) -> None:
    """If the unused bits did not count, a changed link would still be valid. The ids have one, two and three bytes."""
    token = recipient_token(KEY, UNSUBSCRIBE_PURPOSE, recipient_id)
    characters = string.ascii_letters + string.digits + "-_"
    void = [
        character
        for character in characters
        if recipient_from_token((KEY,), UNSUBSCRIBE_PURPOSE, token[:-1] + character) is None
    ]
    assert set(characters) - set(void) == {token[-1]}


@given(st.text())
def test_any_other_text_is_invalid(text: str) -> None:
    """Invalid text raises no exception."""
    assert recipient_from_token((KEY,), UNSUBSCRIBE_PURPOSE, text) is None


@each("text", ["", "A" * 14, "A" * 15, "A" * 17, "A" * 24, "A" * 25, "é" * 18])
def test_texts_of_other_forms_are_invalid(text: str) -> None:
    """Including lengths that no base64 text has."""
    assert recipient_from_token((KEY,), UNSUBSCRIBE_PURPOSE, text) is None
