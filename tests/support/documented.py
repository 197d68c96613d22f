"""The commands of the documentation, for the tests that run them elsewhere than tests/docs does: in an empty
environment, in containers, under load. A guard compares the marks of the pages with who asks here."""

from __future__ import annotations

from pathlib import Path

from tests.support.blocks import blocks

ROOT = Path(__file__).parents[2]


def documented(place: str) -> list[str]:
    """The shell blocks of a section, such as `docs/install.md#containers`, in their order."""
    page, _, section = place.partition("#")
    scripts = [block.text for block in blocks(ROOT / page) if block.language == "sh" and block.section == section]
    assert scripts, f"{place} has no shell block"
    return scripts
