"""Markup that stays in the text as written (docs/personalisation.md#invalid-markup) is found, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.content.conditionals import compile_steps
from app.content.invalid_markup import MAX_SHOWN_CHARACTERS, find_invalid_markup
from app.content.wildcards import tokenize
from tests.support.cases import each

PIECES = ("%%a:HAS%%", "%%a:ELSE%%", "%%a:END%%", "%%b:FROBS:x%%", "%%b:END%%", "%%b**x%%", "text ", "\n", "%%b b%%")


def markers_in(source: str) -> list[tuple[int, str]]:
    return [(invalid.line, invalid.marker) for invalid in find_invalid_markup(source)]


@each(
    ("source", "markers"),
    [
        ("%%first name%% hello", ["%%first name%%"]),
        ("%%plan:EXACTLY%%", ["%%plan:EXACTLY%%"]),
        ("%%plan:FROBS:gold%%x%%plan:END%%", ["%%plan:FROBS:gold%%", "%%plan:END%%"]),
        ("%%a:HAS%% open", ["%%a:HAS%%"]),
        ("%%a:ELSE%% %%b:END%%", ["%%a:ELSE%%", "%%b:END%%"]),
        ("%%a:HAS%%x%%a:ELSEIF:NO:%%y%%a:END%%", ["%%a:ELSEIF:NO:%%"]),
        ("%%a:HAS%%%%b:HAS%%%%a:END%%%%b:END%%", ["%%b:HAS%%", "%%b:END%%"]),
        ("%%name%%%%first name%%", ["%%first name%%"]),
        ("%%first name%%%%name%%", ["%%first name%%"]),
        ("%%Vorname%% %%vör%%", ["%%vör%%"]),
    ],
)
def test_markers_without_effect_are_found(source: str, markers: list[str]) -> None:
    assert [marker for _, marker in markers_in(source)] == markers


@each(
    "source",
    [
        "",
        "no markup, 100 % sure",
        "100%%",
        "5%% for %%first_name%%",
        "5%% off %%first_name%%",
        "5%%%unit%% and %%discount%%% off",
        "%%a:HAS%%x%%a:ELSE%%y%%a:END%% %%name**my friend%% %%attachment:a.txt%%",
    ],
)
def test_valid_markup_and_percent_signs_are_not(source: str) -> None:
    assert markers_in(source) == []


def test_lines_count_from_one_and_count_those_inside_markers() -> None:
    assert markers_in("%%x y%%\n%%a**one\ntwo%%\r\n%%b:FROBS:p\nq%% %%c:END%%") == [
        (1, "%%x y%%"),
        (4, "%%b:FROBS:p\nq%%"),
        (5, "%%c:END%%"),
    ]


def test_a_long_marker_is_shortened() -> None:
    assert markers_in(f"%%a:FROBS:{'x' * 1000}%%") == [(1, f"%%a:FROBS:{'x' * 1000}%%"[:MAX_SHOWN_CHARACTERS])]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_exactly_the_markers_that_stay_in_the_text_are_found(source: str) -> None:
    kept = "".join(step for step in compile_steps(tokenize(source)) if isinstance(step, str))
    for marker in PIECES:
        if marker.startswith("%%"):
            assert [found_marker for _, found_marker in markers_in(source)].count(marker) == kept.count(marker)
