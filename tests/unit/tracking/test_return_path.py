"""Addresses that identify a recipient and cannot be forged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.tracking.tokens import (
    BOUNCE_PURPOSE,
    UNSUBSCRIBE_BY_MAIL_PURPOSE,
    is_signed_form,
    recipient_of_address,
    return_path,
)
from app.tracking.tokens import unsubscribe_address as address_of

KEY = "a secret of the tests, long enough to sign"


def settings(bounce_domain: str = "") -> Any:
    return SimpleNamespace(secret_key=KEY, bounce_domain=bounce_domain)


@given(st.integers(1, 2**63 - 1))
def test_a_return_path_identifies_its_recipient(recipient_id: int) -> None:
    """In any case of its letters; its local part has at most 64 characters (RFC 5321, 4.5.3.1.1)."""
    address = return_path(settings(), recipient_id, "hello@acme.example")
    assert is_signed_form(address)
    assert len(address.partition("@")[0]) <= 64
    for written in (address, address.upper(), address.title(), f" {address}"):
        assert recipient_of_address((KEY,), written) == (BOUNCE_PURPOSE, recipient_id)


def test_the_domain_is_the_bounce_domain_or_that_of_the_sender() -> None:
    assert return_path(settings(), 7, "hello@bücher.example").endswith("@xn--bcher-kva.example")
    assert return_path(settings("bounces.example.com"), 7, "hello@acme.example").endswith("@bounces.example.com")


def test_there_is_an_unsubscribe_address_only_with_a_bounce_domain() -> None:
    assert address_of(settings(), 7) is None
    address = address_of(settings("bounces.example.com"), 7)
    assert address is not None
    assert recipient_of_address((KEY,), address) == (UNSUBSCRIBE_BY_MAIL_PURPOSE, 7)


def test_an_address_of_one_purpose_is_invalid_for_the_other() -> None:
    local, _, domain = return_path(settings(), 7, "hello@acme.example").partition("@")
    assert recipient_of_address((KEY,), f"unsubscribe+{local.removeprefix('bounces+')}@{domain}") is None
    assert recipient_of_address((KEY + "x",), f"{local}@{domain}") is None


@given(st.integers(1, 2**40), st.data())
def test_a_changed_address_is_invalid(recipient_id: int, data: st.DataObject) -> None:
    """Each character counts, except the unused bits of the last one."""
    token = return_path(settings(), recipient_id, "a@b.example").partition("@")[0].removeprefix("bounces+")
    position = data.draw(st.integers(0, len(token) - 2))
    substitute = data.draw(st.sampled_from("abcxyz234567018-").filter(lambda character: character != token[position]))
    assert (
        recipient_of_address((KEY,), f"bounces+{token[:position]}{substitute}{token[position + 1 :]}@b.example") is None
    )


@given(st.text(), st.sampled_from(["", "bounces+", "unsubscribe+"]))
def test_any_other_text_is_invalid(text: str, start: str) -> None:
    """Invalid text raises no exception."""
    assert recipient_of_address((KEY,), start + text) is None
    assert recipient_of_address((KEY,), f"{start}{text}@acme.example") is None
