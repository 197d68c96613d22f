"""docs/index.md: the order of the pages, which `make site` takes from it."""

from __future__ import annotations

from pathlib import Path

from tests.support.pages import links

DOCS = Path(__file__).parents[2] / "docs"


def test_it_links_to_every_page_once() -> None:
    """What is in a folder with a README, such as the decision records, is behind that page."""
    pages = [
        str(page.relative_to(DOCS))
        for page in DOCS.rglob("*.md")
        if page.name == "README.md" or not (page.parent / "README.md").is_file()
    ]
    assert sorted(links(DOCS / "index.md")) == sorted({*pages} - {"index.md"})
