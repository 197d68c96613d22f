"""The documented table of errors is the one in the code."""

from __future__ import annotations

from pathlib import Path

from app.errors import CATALOGUE
from app.generated_docs.errors import page

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    """Otherwise: `make docs`."""
    assert (ROOT / "docs" / "errors.md").read_text("utf-8") == page()


def test_the_page_has_every_code_once() -> None:
    lines = page().splitlines()
    assert [code for code in CATALOGUE if len([line for line in lines if line.startswith(f"| `{code}` |")]) != 1] == []
