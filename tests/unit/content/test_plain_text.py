"""The text alternative of HTML."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.content.plain_text import _config, plain_text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>Only html</p>", "Only html"),
        ("<h1>Hi &amp; welcome</h1><p>Grüße <b>Ann</b></p>", "Hi & welcome\n\nGrüße Ann"),
        ('<a href="https://a.example/?a=1&amp;b=2">Pay now</a>', "[Pay now](https://a.example/?a=1&b=2)"),
        ('<a href="https://a.example/">https://a.example/</a>', "https://a.example/"),
        ("<ul><li>one<li>two</ul>", "  * one\n  * two"),
        ("<table><tr><td>Sum</td><td></td><td>12 €</td></tr><tr><td>x</td></tr></table>", "Sum  12 €\nx"),
        ("<table><tr><td><p>a</p><p>b</p></td><td><p>c</p></td></tr></table>", "a\n\nb\n\nc"),
        ("<div><div><p>Dear <span>Ann</span>,</p></div></div>", "Dear Ann,"),
        ('<a href="https://a.example/?a=1&copy=2&amp;region=3">x</a>', "[x](https://a.example/?a=1&copy=2&region=3)"),
        ('<a href=" https://a.example/?q=Ann\n Lee ">x</a>', "[x](https://a.example/?q=Ann%20Lee)"),
        ("<p>&amp;lt; &lt;b&gt; &copy;&nbsp;&quot;</p>", '&lt; <b> © "'),
        ('<a href="https://a.example/"><img src="x.png" alt="Shop"></a>', "[Shop](https://a.example/)"),
        ('<div style="color:red;Display: None">preview</div><p hidden>x</p><p>seen</p>', "seen"),
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


@pytest.mark.parametrize(
    "html",
    [
        '<div style="padding-left:9999999em">' * 100 + "x<br>" * 1000,
        '<p style="margin-top:9999999em">x</p>' * 1000,
        "<table><tr><td>" + "x" * 50_000 + "</td></tr>" + "<tr><td>a</td><td>b</td></tr>" * 5000,
        "<ul>" * 200 + "<li>x" * 1000,
    ],
)
def test_the_text_is_not_much_longer_than_the_html(html: str) -> None:
    """Otherwise a few lines of html could fill the memory of a worker."""
    assert len(plain_text(html)) < 10 * len(html)


def test_threads_do_not_write_into_each_others_text() -> None:
    """The library keeps the text that it is writing in the style of `body`; rarely enough a shared one is noticed."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            texts = list(pool.map(plain_text, (f"<p>{number}</p>" for number in range(2000))))
    finally:
        sys.setswitchinterval(interval)
    assert texts == [str(number) for number in range(2000)]
    assert _config().css["body"] is not _config().css["body"]


def test_a_long_body_takes_no_time() -> None:
    assert len(plain_text("<p>Some <b>bold</b> words</p>\n" * 20_000)) > 20_000
    assert plain_text("<div>" * 10_000) == ""
    assert plain_text("[" * 50_000 + "\n" * 50_000 + " " * 50_000)
