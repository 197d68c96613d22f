"""Segments of a text message (3GPP TS 23.038 and 23.040)."""

from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.transports.sms.segments import count_segments
from tests.support.cases import each

PLAIN = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡AZÄÖÑÜ§¿azäöñüà"


@each(
    ("text", "segments"),
    [
        ("", 1),
        ("a" * 160, 1),
        ("a" * 161, 2),
        ("a" * 306, 2),
        ("a" * 307, 3),
        (PLAIN + "a" * (160 - len(PLAIN)), 1),
        ("€" * 80, 1),
        ("€" * 81, 2),
        ("a" * 159 + "€", 2),
        ("a" * 158 + "€", 1),
        ("\f^{}\\[~]|€" + "a" * 140, 1),
        ("\f^{}\\[~]|€" + "a" * 141, 2),
        ("ç" + "a" * 69, 1),
        ("ç" + "a" * 70, 2),
        ("日" * 134, 2),
        ("日" * 135, 3),
        ("🐝" * 35, 1),
        ("🐝" * 36, 2),
        ("`" + "a" * 70, 2),
        ("\x1b" + "a" * 70, 2),
    ],
)
def test_segments_are_counted(text: str, segments: int) -> None:
    assert count_segments(text) == segments


def test_an_escaped_character_is_never_split() -> None:
    """The 153rd septet of the first part stays empty, so the last character needs a third part."""
    assert count_segments("a" * 152 + "€" + "a" * 151) == 2
    assert count_segments("a" * 152 + "€" + "a" * 152) == 3


def test_a_surrogate_pair_is_never_split() -> None:
    assert count_segments("日" * 66 + "🐝" + "日" * 65) == 2
    assert count_segments("日" * 66 + "🐝" + "日" * 66) == 3


@given(st.text(st.sampled_from(PLAIN), max_size=1000))
def test_text_of_the_default_alphabet_counts_septets(text: str) -> None:
    assert count_segments(text) == (1 if len(text) <= 160 else math.ceil(len(text) / 153))


@given(st.text(max_size=1000))
def test_ucs2_counts_code_units(text: str) -> None:
    text = "日" + text
    units = len(text.encode("utf-16-be", "surrogatepass")) // 2
    segments = count_segments(text)
    if units <= 70:
        assert segments == 1
    else:  # at most one unit of each part stays empty
        assert math.ceil(units / 67) <= segments <= math.ceil(units / 66)


@given(st.text(st.sampled_from("a€\\~z"), max_size=500))
def test_a_longer_text_never_has_fewer_segments(text: str) -> None:
    counts = [count_segments(text[:end]) for end in range(len(text) + 1)]
    assert all(before <= after <= before + 1 for before, after in pairwise(counts))
