"""A page answers one question in at most 2,500 words (docs/development.md#pages)."""

from __future__ import annotations

from pathlib import Path

from tests.support.pages import PAGES, ROOT

MAX_WORDS = 2500
DOCS = ROOT / "docs"


def words(page: Path) -> int:
    return len(page.read_text("utf-8").split())


def test_no_page_is_long() -> None:
    lengths = {str(page.relative_to(DOCS)): words(page) for page in PAGES if DOCS in page.parents}
    assert {name: length for name, length in lengths.items() if length > MAX_WORDS} == {}
