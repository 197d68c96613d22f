"""A mail while it arrives: where it ends, and how much of it is kept."""

from __future__ import annotations

import pytest

from app.smtp_server import arriving
from app.smtp_server.arriving import LONG_LINE, NO_ROOM, TOO_LARGE, IncomingMail, Store

MAIL = b"Subject: a\r\n\r\n..first\r\n.b\r\nc\n.\nd\r.\r\r\n.\r\nRSET\r\n"
CONTENT = b"Subject: a\r\n\r\n.first\r\nb\r\nc\n.\nd\r.\r\r\n"


def mail(store: Store | None = None, *, most: int = 10_000, kept: int = 10_000) -> IncomingMail:
    return IncomingMail(store or Store(), most=most, kept=kept)


@pytest.mark.parametrize("piece", [1, 2, 3, 4, 5, 7, 100])
def test_it_ends_at_a_line_with_a_dot_however_it_arrives(piece: int) -> None:
    """What follows is the client's next command, and dots of the protocol are no part of the mail."""
    begun = mail()
    for at in range(0, len(MAIL), piece):
        further = begun.feed(MAIL[at : at + piece])
        if further is not None:
            assert further + MAIL[at + piece :] == b"RSET\r\n"
            break
    assert (begun.fault, begun.raw()) == (None, CONTENT)
    begun.close()


@pytest.mark.parametrize(("arrived", "content"), [(b".\r\n", b""), (b"\r\n.\r\n", b"\r\n"), (b"..\r\n.\r\n", b".\r\n")])
def test_a_mail_may_be_empty(arrived: bytes, content: bytes) -> None:
    begun = mail()
    assert begun.feed(arrived) == b""
    assert begun.raw() == content
    begun.close()


def test_only_what_is_read_of_it_is_kept() -> None:
    store = Store(1000)
    begun = mail(store, kept=100)
    assert begun.feed(b"x" * 50 + b"\r\n" * 500) is None
    assert (begun.stored, store.free) == (100, 900)
    assert begun.feed(b"\r\n.\r\n") == b""
    assert begun.raw() == b"x" * 50 + b"\r\n" * 24
    begun.close()
    assert store.free == 1000


def test_what_is_refused_is_read_to_its_end_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving, "MAX_LINE_BYTES", 300)
    for data, most, room, fault in (
        (b"a\r\n" * 400, 1000, 5000, TOO_LARGE),
        (b"a" * 400, 1000, 5000, LONG_LINE),
        (b"a\r\n" * 300, 1000, 500, NO_ROOM),
    ):
        store = Store(room)
        begun = mail(store, most=most)
        for at in range(0, len(data), 100):
            assert begun.feed(data[at : at + 100]) is None
        assert begun.feed(b"\r\n.\r\nQUIT\r\n") == b"QUIT\r\n"
        assert (begun.fault, store.free) == (fault, room)


def test_a_mail_without_an_end_is_known_as_such() -> None:
    begun = mail(most=1000)
    begun.feed(b"a\r\n" * 600)
    assert not begun.is_endless
    begun.feed(b"a\r\n" * 600)
    assert (begun.is_endless, begun.fault) == (True, TOO_LARGE)
