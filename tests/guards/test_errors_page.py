"""The documented tables of errors are those in the code."""

from __future__ import annotations

from pathlib import Path

from app.errors import CATALOGUE
from tests.support.cases import each
from tools.generated_docs.errors import PAGES, page

ROOT = Path(__file__).parents[2]


@each("name", PAGES)
def test_each_page_is_up_to_date(name: str) -> None:
    """`make docs` brings the pages up to date."""
    assert (ROOT / "docs" / f"{name}.md").read_text("utf-8") == page(name)


def test_the_pages_have_every_code_once() -> None:
    lines = [line for name in PAGES for line in page(name).splitlines()]
    assert [code for code in CATALOGUE if len([line for line in lines if line.startswith(f"| `{code}` |")]) != 1] == []
