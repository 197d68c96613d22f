"""A page answers one question, in few words (docs/development.md#pages)."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.cases import each

DOCS = Path(__file__).parents[2] / "docs"
MOST_WORDS = 2_500
FREE = ("decisions", "released")
"""Folders whose pages may have any length."""
GENERATED = re.compile(r"\bThis\s+page\s+is\s+generated\s+from\b")
"""What a reference says that is written from the code."""
WORD = re.compile(r"\S*\w\S*")


def words(text: str) -> int:
    """The words of a text, those in code and tables included."""
    return len(WORD.findall(text))


def is_long(page: Path) -> bool:
    """Whether a page that somebody writes has too many words."""
    text = page.read_text("utf-8")
    return not GENERATED.search(text) and words(text) > MOST_WORDS


def test_no_page_is_long() -> None:
    pages = [page for page in DOCS.rglob("*.md") if page.parent.name not in FREE]
    assert [str(page.relative_to(DOCS)) for page in pages if is_long(page)] == []


@each(("text", "number"), [("| `a` | two words |\n| --- | --- |", 3), ("- one\n\n```sh\nls -l\n```", 4)])
def test_words_are_counted(text: str, number: int) -> None:
    assert words(text) == number
