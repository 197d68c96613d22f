"""Encoding of plain text as HTML, and decoding."""

from hypothesis import given
from hypothesis import strategies as st

from app.content.values import decode, encode
from tests.support.cases import each


@each(
    ("encoded", "text"),
    [
        ("Tom &amp; Jerry", "Tom & Jerry"),
        ("&lt;b&gt; &quot;x&quot; &#39;y&#x27;", "<b> \"x\" 'y'"),
        ("&eacute;&nbsp;&euro;", "é\xa0€"),
        ("&#8364;&#X20AC;", "€€"),
        ("&amp;amp;", "&amp;"),
        ("<b>x</b>", "<b>x</b>"),
        ("&#0;&#xD800;", "\ufffd\ufffd"),
    ],
)
def test_references_are_decoded_once(encoded: str, text: str) -> None:
    assert decode(encoded) == text


@each(
    "text",
    [
        "https://a.example/?id=1&region=2&copy=3",
        "AT&T",
        "R&D; more",
        "&nosuch;",
        "&regionx;",
        "&;",
        "&#;",
        "&#" + "9" * 5000 + ";",
    ],
)
def test_a_malformed_reference_is_not_decoded(text: str) -> None:
    """Links work for clients that forget to encode them."""
    assert decode(text) == text


@given(st.text())
def test_decoding_undoes_encoding(text: str) -> None:
    assert decode(encode(text)) == text


@given(st.text("&#x0123456789abcflt;g"))
def test_decoding_never_raises(text: str) -> None:
    assert len(decode(text)) <= len(text)


@given(st.text())
def test_encoded_text_contains_no_markup(text: str) -> None:
    assert not set(encode(text)) & set("<>\"'")
