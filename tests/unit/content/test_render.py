"""Rendering: encoding by place, headers, and resistance to hostile text (docs/personalisation.md#encoding)."""

import html
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.content.render import MAX_BYTES, RenderingTooLong, Template, size_of
from app.content.values import MergedValues, WildcardValue, recipient_values

MARKUP = "<b>x</b> & \"y\" 'z'"
ESCAPED = "&lt;b&gt;x&lt;/b&gt; &amp; &quot;y&quot; &#x27;z&#x27;"


def _html(source: str, **values: WildcardValue) -> str:
    return Template(source).html(values, {})


def _text(source: str, **values: WildcardValue) -> str:
    return Template(source).text(values, {})


def _header(source: str, **values: WildcardValue) -> str:
    return Template(source).header(values, {})


def test_encoded_values_are_not_changed_in_html() -> None:
    assert Template("<p>%%v%%</p>").html(recipient_values({"v": MARKUP}, html_encoded=True), {}) == f"<p>{MARKUP}</p>"


def test_plain_values_are_escaped_in_html() -> None:
    assert Template("<p>%%v%%</p>").html(recipient_values({"v": MARKUP}, html_encoded=False), {}) == f"<p>{ESCAPED}</p>"


def test_hash_values_are_not_escaped_in_html() -> None:
    values = recipient_values({"#v": MARKUP, "w": "<"}, html_encoded=False)
    assert Template("%%v%%%%w%%").html(values, {}) == MARKUP + "&lt;"


def test_contact_fields_are_escaped_in_html() -> None:
    assert Template("%%v%%").html(MergedValues({}, {"v": MARKUP}), {}) == ESCAPED


def test_the_markup_around_a_value_is_not_changed() -> None:
    assert (
        _html("<a href='/?a=1&b=%%v%%'>é</a>", v=WildcardValue("&", encoded=False)) == "<a href='/?a=1&b=&amp;'>é</a>"
    )


def test_a_fallback_is_plain_text() -> None:
    assert _html("%%v**a < b%%") == "a &lt; b"
    assert _text("%%v**a < b%%") == "a < b"


def test_an_encoded_fallback_is_not_encoded_twice() -> None:
    assert _html("%%v**Tom &amp; Jerry%%") == "Tom &amp; Jerry"


@pytest.mark.parametrize("place", [_text, _header])
def test_encoded_values_are_decoded_outside_html(place: Callable[..., str]) -> None:
    assert place("%%v%%", v=WildcardValue("Tom &amp; <b>Jerry</b>", encoded=True)) == "Tom & <b>Jerry</b>"


@pytest.mark.parametrize("place", [_text, _header])
def test_plain_values_are_not_changed_outside_html(place: Callable[..., str]) -> None:
    assert place("%%v%%", v=WildcardValue("Tom &amp; Jerry", encoded=False)) == "Tom &amp; Jerry"


@pytest.mark.parametrize("encoded", [True, False])
def test_conditions_compare_plain_text(encoded: bool) -> None:
    value = WildcardValue("Tom &amp; Jerry" if encoded else "Tom & Jerry", encoded=encoded)
    assert _html("%%v:EXACTLY:tom &amp; jerry%%yes%%v:END%%", v=value) == "yes"
    assert _html("%%v:EXACTLY:tom & jerry%%yes%%v:END%%", v=value) == "yes"
    assert _text("%%v:EXACTLY:tom & jerry%%yes%%v:END%%", v=value) == "yes"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x\r\nBcc: v@example.com\r\n\r\nbody", "Hi x Bcc: v@example.com body"),
        ("x\ny\rz\tt\x00\x1b\x7f\x85\u2028\u2029u", "Hi x y z t u"),
    ],
)
def test_line_breaks_and_control_characters_never_enter_a_header(value: str, expected: str) -> None:
    assert _header("Hi %%v%%", v=WildcardValue(value, encoded=False)) == expected


def test_line_breaks_in_character_references_never_enter_a_header() -> None:
    assert (
        _header("Hi %%v%%", v=WildcardValue("x&#13;&#10;&NewLine;Bcc: v@example.com", encoded=True))
        == "Hi x Bcc: v@example.com"
    )


def test_line_breaks_of_the_source_never_enter_a_header() -> None:
    assert _header("Hi\r\nX-Injected: %%v**a\nb%%") == "Hi X-Injected: a b"


def test_a_template_renders_for_several_recipients() -> None:
    template = Template("%%v:HAS%%%%v%%%%v:ELSE%%nobody%%v:END%%")
    assert [template.text({"v": WildcardValue(name, encoded=False)}, {}) for name in ("Ann", "", "Bob")] == [
        "Ann",
        "nobody",
        "Bob",
    ]


@pytest.mark.parametrize("character", ["x", "&", "é", "😀"])
def test_rendering_ends_with_an_error_at_the_limit(character: str) -> None:
    """The limit counts bytes of the output."""
    source = "a%%v%%%%w**b%%" * 10
    values = {"v": WildcardValue(character, encoded=False)}
    for render, size in (
        (Template(source).html, len(html.escape(character).encode()) + 2),
        (Template(source).text, len(character.encode()) + 2),
        (Template(source).header, len(character.encode()) + 2),
    ):
        assert size_of(render(values, {}, size * 10)) == size * 10
        with pytest.raises(RenderingTooLong):
            render(values, {}, size * 10 - 1)


def test_rendering_stops_at_the_limit() -> None:
    """Ten thousand times ten thousand characters would fill the memory of a worker."""
    template = Template("%%v%%" * 10_000)
    tracemalloc.start()
    try:
        with pytest.raises(RenderingTooLong):
            template.html({"v": WildcardValue("&" * 10_000, encoded=False)}, {})
        assert tracemalloc.get_traced_memory()[1] < 2 * MAX_BYTES
    finally:
        tracemalloc.stop()


# Text that resembles markup.
SIGNS = st.sampled_from(["%%", "%", "%%%", "**", ":", ":OR:", ",", " ", "\n", "<", "&amp;"])
WORDS = st.sampled_from(
    ["a", "B", "attachment", "x.png", "1", "2026-01-31", "HAS", "EXACTLY", "FROBS", "ELSE", "ELSEIF", "END"]
)
FENCES = st.sampled_from(
    ["%%a:HAS%%", "%%b:CONTAINS:1%%", "%%a:FROBS%%", "%%a:ELSE%%", "%%a:ELSEIF:b:HASNOT%%", "%%a:END%%", "%%b:END%%"]
)
PIECES = SIGNS | WORDS | FENCES
SOURCES = st.one_of(st.text(), st.lists(PIECES, max_size=60).map("".join))
VALUES = st.dictionaries(st.sampled_from(["a", "b"]), st.builds(WildcardValue, st.text() | SOURCES, st.booleans()))


@given(SOURCES, VALUES)
def test_no_text_raises(source: str, values: dict[str, WildcardValue]) -> None:
    template = Template(source)
    attachments = {"x.png": "content_1"}
    template.html(values, attachments)
    template.text(values, attachments)
    assert not set(template.header(values, attachments)) & set("\r\n\x00\x85\u2028\u2029")


@given(st.text().filter(lambda text: "%%" not in text), VALUES)
def test_text_without_markers_is_returned_unchanged(source: str, values: dict[str, WildcardValue]) -> None:
    template = Template(source)
    assert template.html(values, {}) == source
    assert template.text(values, {}) == source


@given(st.lists(PIECES.filter(lambda piece: "END" not in piece and "%" not in piece)).map("".join))
def test_an_unclosed_marker_is_returned_unchanged(source: str) -> None:
    assert _text("%%" + source) == "%%" + source


@given(st.text(), st.booleans())
def test_a_value_is_output_unchanged(text: str, encoded: bool) -> None:
    assert _html("<%%v**%%>", v=WildcardValue(text, encoded=True)) == f"<{text}>"
    assert _text("<%%v**%%>", v=WildcardValue(text, encoded=False)) == f"<{text}>"


def _work(source: str) -> int:
    """The number of executed lines of app/content while a source is compiled and rendered."""
    lines = 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if "/content/" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        Template(source).html({"a": WildcardValue("x", encoded=False)}, {})
    finally:
        sys.settrace(before)
    return lines


ADVERSARIAL: dict[str, Callable[[int], str]] = {
    "signs": lambda n: "%%" * n,
    "odd signs": lambda n: "%" * (2 * n + 1),
    "wildcards": lambda n: "%%a%%" * n,
    "never closed": lambda n: "%%a:HAS%%" * n,
    "closed without opening": lambda n: "%%a:END%%" * n,
    "nested": lambda n: "%%a:HAS%%" * n + "x" + "%%a:END%%" * n,
    "never closed inside one that is": lambda n: "%%b:HASNOT%%" + "%%a:HAS%%" * n + "%%b:END%%",
    "overlapping": lambda n: "%%a:HAS%%%%b:HAS%%%%a:END%%%%b:END%%" * n,
    "openings and stray ends": lambda n: "%%a:HAS%%" * n + "%%b:END%%" * n,
    "elses": lambda n: "%%a:HAS%%" + "%%a:ELSE%%" * n + "%%a:END%%",
    "elseifs": lambda n: "%%a:HASNOT%%" + "%%a:ELSEIF:HASNOT%%" * n + "%%a:END%%",
    "conditions in one marker": lambda n: "%%a:HASNOT" + ":OR:HASNOT" * n + "%%x%%a:END%%",
    "conditions that do not parse": lambda n: "%%a:HAS" + ":OR:" * n + "%%x%%a:END%%",
    "unknown operators": lambda n: "%%a:FROBS:x%%" * n + "%%a:END%%" * n,
}


@pytest.mark.parametrize("kind", ADVERSARIAL)
def test_work_grows_no_faster_than_the_source(kind: str) -> None:
    make = ADVERSARIAL[kind]
    once, twice = _work(make(100)), _work(make(200))
    assert twice <= 2 * once


@pytest.mark.parametrize("kind", ADVERSARIAL)
def test_long_sources_do_not_reach_the_recursion_limit(kind: str) -> None:
    source = ADVERSARIAL[kind](5 * sys.getrecursionlimit())
    assert len(Template(source).html({}, {})) <= len(source)


def test_conditionals_may_be_nested_ten_thousand_levels_deep() -> None:
    """The 75 outer conditions are evaluated; their content needs further ones and is omitted."""
    source = "(%%a:HAS%%" * 10_000 + "%%a:END%%)" * 10_000
    assert _text(source, a=WildcardValue("x", encoded=False)) == "(" * 76 + ")" * 76
