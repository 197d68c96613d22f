"""The documented table of settings is the one in the code."""

from __future__ import annotations

from pathlib import Path

from app.generated_docs.settings import page

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    """Otherwise: `make docs`."""
    assert (ROOT / "docs" / "settings.md").read_text("utf-8") == page()
