"""Stop words: whole words in any case, always including STOP (docs/sending.md#opting-out-of-sms)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.content.conditionals import unconditional_text
from app.sends.accept.senders import has_stop_word
from tests.support.cases import each


@each(
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
        ("STOP\u0308", [], False),
        ("\u0308STOP", [], False),
        ("STOP\u0308 STOP", [], True),
        ("_STOP", [], False),
        ("STOP\u200b", [], True),
        ("रोकें", ["रोक"], False),
        ("Antworte ENDE.", ["Ende"], True),
        ("TSCHÜSS", ["tschüss"], True),
        ("opt out now", ["opt out"], True),
        ("a.b", ["a.b"], True),
        ("axb", ["a.b"], False),
        ("reply +", ["+"], True),
        ("停止", ["停止"], True),
        ("", [], False),
    ],
)
def test_stop_words_are_found_as_whole_words(text: str, words: list[str], expected: bool) -> None:
    assert has_stop_word(text, words) is expected


@given(st.text(), st.text())
def test_stop_between_spaces_is_always_found(before: str, after: str) -> None:
    assert has_stop_word(f"{before} stop {after}")


@each(
    ("source", "expected"),
    [
        ("Hi %%name**you%%, reply STOP", True),
        ("%%name**STOP%%", True),
        ("%%name%%STOP%%name%%", True),
        ("%%stop%%", False),
        ("%%x:HAS%%a%%x:END%% STOP", True),
        ("%%x:HAS%%a%%x:END%%STOP", True),
        ("%%plan:EXACTLY:gold%%STOP%%plan:END%%", False),
        ("%%x:HAS%%STOP%%x:ELSE%%STOP%%x:END%%", False),
        ("%%x:HAS%%%%y:HAS%%a%%y:END%% STOP%%x:END%%", False),
        ("%%x:HAS%%a%%x:ELSEIF:CONTAINS:STOP%%b%%x:END%%", False),
        ("%%x:EXACTLY:STOP%%a%%x:END%%", False),
        ("ST%%x:HAS%%a%%x:END%%OP", False),
        ("%%attachment:STOP.pdf%%", False),
        # A malformed marker is text, and so is the text that it seems to enclose.
        ("%%x:HAS%% STOP", True),
        ("%%x:FROBS:a%% STOP %%x:END%%", True),
        ("STOP %%x:END%%", True),
        ("%%x:HAS%%a%%x:END%% STOP %%y:HAS%%b%%y:END%%", True),
    ],
)
def test_a_stop_word_of_a_message_must_stand_outside_conditionals(source: str, expected: bool) -> None:
    assert has_stop_word(unconditional_text(source)) is expected


@given(st.text(st.sampled_from("%x:HASEND* ")))
def test_the_unconditional_text_of_any_source_is_found(source: str) -> None:
    assert len(unconditional_text(source)) <= 2 * len(source) + 1
