"""Texts of clients and other servers are escaped for the terminal."""

from __future__ import annotations

from app.cli.base import printable
from tests.support.cases import each


@each(
    ("text", "expected"),
    [
        ("Ann", "Ann"),
        ("Zoë 김 👩‍💻 %_\\", "Zoë 김 👩‍💻 %_\\"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("a\x9b31mb\x7f\x00", "a\\x9b31mb\\x7f\\x00"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("a\u2066b\u2028c\ufeff\udc80", "a\\u2066b\\u2028c\\ufeff\\udc80"),
        ("one\r\ntwo\tthree", "one\\r\\ntwo\\tthree"),
    ],
)
def test_control_characters_are_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected


def test_texts_of_several_lines_keep_their_lines() -> None:
    assert printable("a\r\nb\x1b\n\rc", lines=True) == "a\nb\\x1b\n\\rc"
