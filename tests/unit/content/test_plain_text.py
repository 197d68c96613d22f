"""The text generated from HTML."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.content.plain_text import MAX_DEPTH, MAX_TAGS, plain_text
from tests.support.cases import each


@each(
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
        ('<a href="https://a.example/a_(b)">x</a>', "[x](https://a.example/a_(b))"),
        ('<a href="https://a.example/x)y?z=1">x</a>', "[x](https://a.example/x%29y?z=1)"),
        ('See <a href="https://a.example/x)y">https://a.example/x)y</a>.', "See https://a.example/x%29y."),
        ('<a href="https://a.example/x)y">https://a.example/x%29y</a>', "https://a.example/x%29y"),
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
def test_the_text_contains_what_a_reader_sees(html: str, text: str) -> None:
    assert plain_text(html) == text


@given(st.text(st.sampled_from("<>/&;=\"'ab p\n\0ä\x0b") | st.characters(), max_size=200))
def test_any_html_is_converted(html: str) -> None:
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
    """A few lines of HTML could fill the memory of a worker if the text had no such bound."""
    assert len(plain_text(html)) < 10 * len(html)


@each(
    ("html", "text"),
    [
        ("<p>one<p>two", "one\n\ntwo"),
        ("<ul><li>a<ul><li>b</ul><li>c</ul><ol><li>x<li>y</ol>z", "  * a\n      * b\n  * c\n 1. x\n 2. y\nz"),
        ("<li>bare", "* bare"),
        ("<ul><li></ul>after", "after"),
        ("<pre>a  b\n  c</pre>d", "a  b\n  c\nd"),
        ("a < b &amp; c<d", "a < b & c"),
        ("<!-- a > b -->x<!--[if mso]><p>y<![endif]--><!doctype html><?php z?></>!", "x!"),
        ("<p title='>'>x</p >y</ z>", "x\n\ny"),
        ("<p>x<p title='>y</p>", "x"),
        ("<script>if (a < b) '<p>y</p>'</script>x<style>y", "x"),
        ("<p>x<q>y</q> z", 'x"y" z'),
        ('<a href="https://a.example/"><div>Pay</div></a>now', "[Pay](https://a.example/)\nnow"),
        ('<a href="https://a.example/"><img src="x.png"></a>', "https://a.example/"),
        ("<a name=x>y</a> <a href=z>one<a href=z>two", "y [one](z)[two](z)"),
        ("<div hidden><div>x</div></p>y</div><p hidden>z<div>seen</div>", "seen"),
        ("<div style=display:none><table><td>x</div>y</table></div>seen", "seen"),
        ("<DIV STYLE='DISPLAY:NONE' style=''>x</DIV><P>seen", "seen"),
    ],
)
def test_html_is_parsed_as_browsers_parse_it(html: str, text: str) -> None:
    assert plain_text(html) == text


def test_deeply_nested_elements_are_closed() -> None:
    deep = 10 * MAX_DEPTH
    assert plain_text("<div hidden>" * deep + "x" + "</div>" * deep + "seen") == "seen"
    assert plain_text("<div>" * deep + "<a href=x>y</a>" + "</div>" * deep + "z") == "y\nz"


def test_a_body_with_very_many_tags_keeps_its_words() -> None:
    style = "<style>p > a {x: y}</style><!-- <p> no -->"
    html = f"<p>caf&eacute;</p>{style}" + "<br><a href=x>word</a>\n" * MAX_TAGS
    assert plain_text(html) == "café" + " word" * MAX_TAGS


def test_a_long_body_is_converted_in_linear_time() -> None:
    assert len(plain_text("<p>Some <b>bold</b> words</p>\n" * 20_000)) > 20_000
    assert plain_text("<div>" * 10_000) == ""
    assert plain_text("[" * 50_000 + "\n" * 50_000 + " " * 50_000)
