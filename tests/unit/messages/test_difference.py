"""What differs between two versions of a text (docs/contacts.md#versions)."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from app.messages.difference import (
    CONTEXT,
    MAX_LINES,
    NO_LINE_LIMIT,
    Hunk,
    Line,
    compare,
    differences,
    lines_of,
    unified,
)

SOME_LINES = st.lists(st.sampled_from("abcdef"), max_size=60)


def applied(old: Sequence[str], hunks: Sequence[Hunk]) -> list[str]:
    """The other text, as the difference says it. Each line must have the number that it has in its text."""
    made: list[str] = []
    at = 0
    for hunk in hunks:
        for line in hunk:
            if line.old is not None:
                made += old[at : line.old - 1]
                at = line.old
                assert old[line.old - 1] == line.text
            if line.kind != "removed":
                made.append(line.text)
            assert line.new is None or made[line.new - 1] == line.text
    return made + list(old[at:])


@given(SOME_LINES, SOME_LINES)
def test_a_difference_leads_from_one_text_to_the_other(old: list[str], new: list[str]) -> None:
    hunks, is_cut = compare(old, new)
    assert not is_cut
    assert (hunks == []) == (old == new)
    assert applied(old, hunks) == new


@given(st.lists(st.integers(0, 10_000).map(str), unique=True, max_size=400), st.data())
def test_lines_that_a_text_has_once_are_found_wherever_others_come_or_go(old: list[str], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.sampled_from(old), max_size=20) if old else st.just(set[str]()))
    places = data.draw(st.lists(st.integers(0, len(old)), max_size=20))
    new = [line for line in old if line not in gone]
    for place in places:
        new.insert(place, "new")
    hunks, _ = compare(old, new)
    assert {line.text for hunk in hunks for line in hunk if line.kind == "removed"} == gone
    assert sum(line.kind == "added" for hunk in hunks for line in hunk) == len(places)


def test_equal_lines_stand_around_those_that_differ() -> None:
    old = [str(number) for number in range(30)]
    new = [*old[:5], "five", *old[6:12], "twelve", *old[13:29]]
    (first, second), _ = compare(old, new)
    assert [line.text for line in first] == [*old[2:6], "five", *old[6:13], "twelve", *old[13:16]]
    assert first[0] == Line("same", "2", 3, 3)
    assert first[3:5] == [Line("removed", "5", old=6), Line("added", "five", new=6)]
    assert second == [
        *(Line("same", str(number), number + 1, number + 1) for number in range(26, 29)),
        Line("removed", "29", old=30),
    ]
    apart = [*old[:5], "five", *old[6 : 6 + 2 * CONTEXT + 1], "x", *old[6 + 2 * CONTEXT + 1 :]]
    assert len(compare(old, apart)[0]) == 2


def test_repeated_lines_are_matched_in_short_pieces() -> None:
    old, new = (
        ["<tr>", "a", "</tr>"] * 10,
        ["<tr>", "a", "</tr>"] * 5 + ["<tr>", "b", "</tr>"] + ["<tr>", "a", "</tr>"] * 5,
    )
    (hunk,), _ = compare(old, new)
    assert [line.text for line in hunk if line.kind == "added"] in (["<tr>", "b", "</tr>"], ["b", "</tr>", "<tr>"])
    assert not [line for line in hunk if line.kind == "removed"]


def test_texts_that_are_too_different_are_shown_as_replaced() -> None:
    (hunk,), _ = compare(["x", *["a", "b"] * 500, "y"], ["x", *["b", "a"] * 500, "y"])
    assert [line.kind for line in hunk] == ["same", *["removed"] * 1000, *["added"] * 1000, "same"]
    old = [str(number) for number in range(MAX_LINES)]
    (hunk,), _ = compare(old, ["new", *old[1:-1], "new"])
    assert sum(line.kind == "same" for line in hunk) == 0


def test_only_so_many_lines_are_made() -> None:
    old = [str(number) for number in range(100)]
    for most in (1, 3, 4, 11):
        hunks, is_cut = compare(old, ["first", *old, "last"], most)
        assert sum(map(len, hunks)) == min(most, 8)
        assert is_cut == (most < 8)
    assert compare(["a"], ["a"], 1) == ([], False)
    assert compare(["a"], ["b"], 2)[1] is False
    assert compare(["a"], ["b"], NO_LINE_LIMIT) == compare(["a"], ["b"])


def test_fields_that_are_equal_are_left_out() -> None:
    before = {"name": "a", "subject": None, "body_html": "1\n2", "body_text": "x"}
    field_differences = differences(before, {**before, "subject": "Hi", "body_html": None})
    assert [
        (difference.field, difference.is_body, difference.before, difference.after) for difference in field_differences
    ] == [
        ("subject", False, None, "Hi"),
        ("body_html", True, "1\n2", None),
    ]
    assert [line for difference in field_differences for line in unified(difference, "version 1", "version 2")] == [
        *("--- subject (version 1)", "+++ subject (version 2)", "@@ -0,0 +1,1 @@", "+Hi"),
        *("--- body_html (version 1)", "+++ body_html (version 2)", "@@ -1,2 +0,0 @@", "-1", "-2"),
    ]


def test_an_empty_text_has_one_line_and_null_none() -> None:
    assert (lines_of(None), lines_of(""), lines_of("a\r\n")) == ([], [""], ["a\r", ""])
