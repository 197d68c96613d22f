"""What a reason says in a few words (docs/console-messages.md#messages)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.recipients.reply_meanings import MAX_LENGTH, meaning_of
from app.recipients.states import FailReason
from tests.support.cases import each


@each(
    ("reason", "meaning"),
    [
        ("550 5.1.1 nobody of that name lives here", "mailbox does not exist"),
        ("550-5.1.1 The account does not exist", "mailbox does not exist"),
        ("552 5.2.2 over quota", "mailbox is full"),
        ("550 5.7.26 unauthenticated", "sender is not authenticated"),
        ("550 5.7.999 no", "refused by policy"),
        ("550 5.1.99 no", "address was refused"),
        ("550 5.9.1 strange", "5.9.1 strange"),
        ("550 no such user <ann@example.com> here", "no such user here"),
        ("550 ann@example.com: User unknown", "User unknown"),
        ("blocked", "address is blocked"),
        ("the connection was closed", "the connection was closed"),
    ],
)
def test_a_reason_has_its_meaning(reason: str, meaning: str) -> None:
    assert meaning_of(reason) == meaning


@each("reason", list(FailReason))
def test_each_of_our_codes_has_words(reason: FailReason) -> None:
    assert "_" not in meaning_of(reason)


def test_replies_that_differ_in_the_address_alone_have_one_meaning() -> None:
    assert len({meaning_of(f"550 <{name}@example.com>: rejected") for name in ("ann", "bob", "x" * 60)}) == 1


@given(st.text(max_size=3000))
def test_a_meaning_is_short_whatever_a_server_says(reply: str) -> None:
    assert len(meaning_of(reply)) <= MAX_LENGTH + 1


@given(st.emails())
def test_a_meaning_has_no_address(address: str) -> None:
    assert address not in meaning_of(f"550 no such user: {address} here")
