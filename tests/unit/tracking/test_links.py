"""Links of a body are found as a browser finds them, and the rest of the body is not changed."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.content.plain_text import plain_text
from app.content.values import encode
from app.tracking.links import MAX_SCANNED, links_in_source, replace_in_html, replace_in_text, written_links
from tests.support.cases import each


def bracketed(url: str) -> str:
    return f"[{url}]"


@each(
    ("html", "urls"),
    [
        ('<a href="https://a.example/x">x</a>', ["https://a.example/x"]),
        ("<A class=b HREF = 'http://a.example/?q=1'>", ["http://a.example/?q=1"]),
        ("<area shape=rect href=https://a.example/z>", ["https://a.example/z"]),
        ('<a\nhref="https://a.example/"\ntitle="a > b">', ["https://a.example/"]),
        ('<a href=" https://a.example/\n b ">', ["https://a.example/ b"]),
        ('<a href="https://a.example/?x=1&amp;y=2&region=3">', ["https://a.example/?x=1&y=2&region=3"]),
        ('<a href="https://a.example/" href="https://b.example/">', ["https://a.example/"]),
        ('<a href="https://a.example/">1</a><a href="https://a.example/">2</a>', ["https://a.example/"]),
        ('<a href="https://a.example/%%name%%">', []),
        ('<a href="mailto:a@b.example"><a href="tel:1"><a href="#x"><a href="cid:1"><a href="/x"><a href>', []),
        ('<a href="//a.example/"><a href="https:"><a href="http://"><a href="javascript:x">', []),
        ('<link href="https://a.example/"><abbr href="https://a.example/"><a data-href="https://a.example/">', []),
        ('<a title="<a href=https://a.example/>">', []),
        ('<a href="https://a.example/', []),
        ('<a href=https://a.example/ style=>a</a><a href= title="b">b</a>', ["https://a.example/"]),
        ('<a href=>a</a><a = href="https://b.example/">b</a>', ["https://b.example/"]),
        ("<a href=>a</a><a href = >b</a><a href=https://c.example/>c</a>", ["https://c.example/"]),
        ('<a style== =x href=/ ><a href="https://b.example/" style = >b</a>', ["https://b.example/"]),
        ('<a href="https://a.example/"><a style="><a href="https://b.example/">', ["https://a.example/"]),
        ("<a href=https://a.example/ style='><a href=https://b.example/>", []),
        ("https://a.example/", []),
    ],
)
def test_links_of_html_are_found(html: str, urls: list[str]) -> None:
    assert links_in_source("html_email", html) == urls


@each(
    ("text", "urls"),
    [
        ("Go to https://a.example/x.", ["https://a.example/x"]),
        ("(see http://a.example/a_(b)), or HTTPS://B.example!", ["http://a.example/a_(b)", "HTTPS://B.example"]),
        ("<https://a.example/?q=1&r=2>", ["https://a.example/?q=1&r=2"]),
        ("http://a.example/(a)(b)). http://b.example/[x(y])]", ["http://a.example/(a)(b)", "http://b.example/[x(y])"]),
        (
            "http://a.example/(( http://b.example/(x.) http://c.example/)(",
            ["http://a.example/((", "http://b.example/(x", "http://c.example/)("],
        ),
        ("https://a.example/%%name%% http:// mailto:a@b.example www.a.example", []),
        ("[https://a.example/x](https://b.example/?y=1).", ["https://a.example/x", "https://b.example/?y=1"]),
        ("[Go to https://a.example/x.](https://b.example/a_(b)),", ["https://a.example/x", "https://b.example/a_(b)"]),
        ("[https://a.example/[x]](mailto:a@b.example)", ["https://a.example/[x]"]),
        ("[https://a.example/%%name%%](https://b.example/)", ["https://b.example/"]),
        ("[https://a.example/x](https://b.example/%%name%%)", ["https://a.example/x"]),
        ("[A](https://a.example)'s, [b](http://b.example/(x)!)-c", ["https://a.example", "http://b.example/(x)!"]),
        ("[a](http://a.example/)[b](http://b.example/)", ["http://a.example/", "http://b.example/"]),
        (
            "Siehe „https://acme.example/x“. ”https://acme.example/y”",
            ["https://acme.example/x", "https://acme.example/y"],
        ),
        ("https://acme.example/x… »https://acme.example/y» —", ["https://acme.example/x", "https://acme.example/y"]),
        (
            "https://bücher.example/straße, https://a.example/?u=https://b.example",
            ["https://bücher.example/straße", "https://a.example/?u=https://b.example"],
        ),
        ("https://a.example/x,https://b.example/y", []),
        ("https://a.example/?urls=https://b.example/1,https://b.example/2", []),
        ("https://bu\u0308cher.example/x", ["https://bu\u0308cher.example/x"]),
        ("パスワードの再設定はhttps://acme.example/resetからどうぞ。", []),
        ("詳細（https://acme.example/a）を参照。 请访问https://acme.example/a完成注册。", []),
        ("https://a.example/Foo–Bar https://пример.example/", []),
        ("[a](https://a.example/再)", ["https://a.example/再"]),
        ("[a](https://a.example/x,https://b.example/y)", ["https://a.example/x,https://b.example/y"]),
        ("](http://a.example/(x )](http://b.example.", ["http://a.example/(x", "http://b.example"]),
    ],
)
def test_links_of_a_text_are_found(text: str, urls: list[str]) -> None:
    assert links_in_source("text_email", text) == urls


@given(st.text(st.sampled_from("()[]<>\"'`. \xa0ä%?x"), max_size=10))
def test_the_address_of_a_link_in_a_generated_text_is_found_whole(path: str) -> None:
    """Whatever characters it has: they are escaped if it would end at them."""
    url = f"https://a.example/{path}x"
    (read,) = written_links("text_email", plain_text(f'<a href="{encode(url)}">go</a>'))
    assert unquote(read) == url


def test_only_the_url_is_replaced() -> None:
    html = "<p title='a'><a class=x href=https://a.example>1</a> & <a href='https://b.example/?a&amp;b'>2</a>"
    assert replace_in_html(html, lambda url: "https://t.example/?" + url[8] + "&c") == (
        '<p title=\'a\'><a class=x href="https://t.example/?a&amp;c">1</a> & <a href="https://t.example/?b&amp;c">2</a>'
    )
    assert replace_in_html(html, lambda _: None) == html
    assert replace_in_text("(http://a.example/x), y", bracketed) == "([http://a.example/x]), y"
    assert replace_in_text("(http://a.example/x), y", lambda _: None) == "(http://a.example/x), y"


@given(st.lists(st.sampled_from([*"<a=/ >\"'\n&;", "href", "https://a.example", "<a ", "%%"])).map("".join))
def test_any_html_can_be_read(html: str) -> None:
    """HTML is not changed where there is no replacement."""
    assert replace_in_html(html, lambda _: None) == html
    assert replace_in_text(html, lambda _: None) == html


@pytest.mark.parametrize(
    "piece",
    [
        *('<a "', "<a '", '<a href="x', "<a x ", "<a/", "<a =", "<a x=>", "<a" + " " * 500),
        *("http://", "(", "](http://a", "](http://a)"),
    ],
)
def test_the_time_is_linear(piece: str) -> None:
    """A body of the maximum size does not take minutes, whatever it repeats."""
    body = piece * (1024 * 1024 // len(piece))
    assert replace_in_html(body, lambda _: None) == body
    assert replace_in_text(body, lambda _: None) == body


def test_of_very_many_links_the_first_are_found() -> None:
    """A limit is needed because a body with a megabyte of links would cost each of its hundred mails a second."""
    some, more = MAX_SCANNED, 10 * MAX_SCANNED
    assert replace_in_text("http://a " * more, bracketed) == "[http://a] " * some + "http://a " * (more - some)
    html = replace_in_html("<a href=http://a>" * more, lambda _: "b")
    assert html == '<a href="b">' * some + "<a href=http://a>" * (more - some)
