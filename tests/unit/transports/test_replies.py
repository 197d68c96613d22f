"""Replies of mail servers: outcome, text and RFC 3463 status."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.transports.base import Outcome
from app.transports.email.smtp_session import MAX_TEXT_LENGTH, SERVICE_FAULT_CODES, Reply
from tests.support.cases import each

CLASSES = {Outcome.ACCEPTED: "2", Outcome.DEFERRED: "4", Outcome.REFUSED: "5"}


@each(
    ("code", "raw", "reply", "status"),
    [
        (550, b"5.1.1 no such user here", "550 5.1.1 no such user here", "5.1.1"),
        (550, b"no such user here", "550 no such user here", "5.0.0"),
        (550, b"", "550", "5.0.0"),
        (550, b"5.1.1", "550 5.1.1", "5.1.1"),
        (550, b"5.1.1.1 is no status", "550 5.1.1.1 is no status", "5.0.0"),
        (550, b"9.1.1 neither", "550 9.1.1 neither", "5.0.0"),
        (451, b"5.7.1 a class that contradicts the code", "451 5.7.1 a class that contradicts the code", "4.7.1"),
        (250, b"2.0.0 ok", "250 2.0.0 ok", "2.0.0"),
        (
            550,
            b"5.1.1 The account that you tried\n5.1.1 to reach\n5.1.1  does not exist",
            "550 5.1.1 The account that you tried to reach does not exist",
            "5.1.1",
        ),
        (554, b"Sorry,\nno", "554 Sorry, no", "5.0.0"),
        (550, "5.1.1 gibt’s nicht".encode(), "550 5.1.1 gibt’s nicht", "5.1.1"),
        (550, b"5.1.1 caf\xe9 \x1b[31m\0", "550 5.1.1 caf\ufffd  [31m", "5.1.1"),
    ],
)
def test_the_text_and_the_status_of_a_reply(code: int, raw: bytes, reply: str, status: str) -> None:
    result = Reply.from_wire(code, raw).result()
    assert (result.reply, result.status) == (reply, status)


@given(code=st.integers(-1, 999), raw=st.binary(max_size=3000))
def test_any_reply_has_an_outcome_and_a_status_of_its_class(code: int, raw: bytes) -> None:
    result = Reply.from_wire(code, raw).result()
    assert result.status is not None
    assert result.status[0] == CLASSES[result.outcome]
    assert (result.outcome is Outcome.ACCEPTED) == (200 <= code <= 299)
    assert (result.outcome is Outcome.REFUSED) == (500 <= code <= 599 and code not in SERVICE_FAULT_CODES)
    assert "\n" not in result.reply
    assert len(result.reply) <= MAX_TEXT_LENGTH + 5
