"""The text alternative of HTML."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.content.plain_text import plain_text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>Only html</p>", "Only html"),
        ("<h1>Hi &amp; welcome</h1><p>Grüße <b>Ann</b></p>", "Hi & welcome\n\nGrüße Ann"),
        ('<a href="https://a.example/?a=1&amp;b=2">Pay now</a>', "[Pay now](https://a.example/?a=1&b=2)"),
        ('<a href="https://a.example/">https://a.example/</a>', "https://a.example/"),
        ("<ul><li>one<li>two</ul>", "  * one\n  * two"),
        ("<table><tr><td>Sum</td><td>12 €</td></tr></table>", "Sum  12 €"),
        ("<p>a</p><div><br></div><div><br></div><p>b</p>", "a\n\nb"),
        ("<style>p {color: red}</style><script>x()</script><title>t</title><p>seen</p>", "seen"),
        ('<img src="https://a.example/pixel.gif">', ""),
        ("<html><body></body></html>", ""),
        ("", ""),
    ],
)
def test_what_a_reader_sees(html: str, text: str) -> None:
    assert plain_text(html) == text


@given(st.text(st.sampled_from("<>/&;=\"'ab p\n\0ä\x0b") | st.characters(), max_size=200))
def test_nothing_is_too_odd(html: str) -> None:
    assert plain_text(html) is not None


def test_a_long_body_takes_no_time() -> None:
    assert len(plain_text("<p>Some <b>bold</b> words</p>\n" * 20_000)) > 20_000
    assert plain_text("<div>" * 10_000) == ""
    assert plain_text("[" * 50_000 + "\n" * 50_000 + " " * 50_000)
