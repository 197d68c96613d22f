"""Lines in which wildcards and references to attachments stand."""

from __future__ import annotations

from app.content.invalid_markup import placeholder_lines
from tests.support.cases import each


@each(
    ("source", "lines"),
    [
        ("", {}),
        ("%%a%%", {("a", ""): [1]}),
        ("x\n%%a%% %%A%%\n\n%%a%%", {("a", ""): [2, 4]}),
        ("%%a**one\ntwo%%\n%%a%%", {("a", "one\ntwo"): [1], ("a", ""): [3]}),
        ("%%b:HAS%%\n%%a%%\n%%b:END%%\n%%a%%", {("a", ""): [2, 4]}),
        ("\n%%attachment:logo.png%%", {("attachment:logo.png", ""): [2]}),
        ("%%a b%%\n100%%", {}),
    ],
)
def test_each_placeholder_has_its_lines(source: str, lines: dict[tuple[str, str], list[int]]) -> None:
    assert placeholder_lines(source) == lines
