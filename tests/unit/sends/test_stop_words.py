"""Stop words: whole words in any case, STOP always among them (decisions: 6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sends.stop_words import has_stop_word


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("STOP", [], True),
        ("reply Stop!", [], True),
        ("Reply STOP to end", ["OPTOUT"], True),
        ("Reply optout", ["OPTOUT"], True),
        ("Reply OPTOUT", [], False),
        ("STOPPED", [], False),
        ("NONSTOP", [], False),
        ("STOP2", [], False),
        ("Stöp", [], False),
        ("Antworte ENDE.", ["Ende"], True),
        ("TSCHÜSS", ["tschüss"], True),
        ("opt out now", ["opt out"], True),
        ("a.b", ["a.b"], True),
        ("axb", ["a.b"], False),
        ("reply +", ["+"], True),
        ("停止", ["停止"], True),
        ("%%name**STOP%%", [], True),
        ("%%plan:EXACTLY:gold%%STOP%%plan:END%%", [], True),
        ("", [], False),
    ],
)
def test_stop_words(text: str, words: list[str], expected: bool) -> None:
    assert has_stop_word(text, words) is expected


@given(st.text(), st.text())
def test_stop_between_spaces_is_always_found(before: str, after: str) -> None:
    assert has_stop_word(f"{before} stop {after}")
