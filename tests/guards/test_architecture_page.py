"""docs/code-layout.md names every package of `app`, and the files of the tour in docs/architecture.md exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAYOUT = (ROOT / "docs" / "code-layout.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
TOUR = re.findall(r"^\d+\. (`.+):", ARCHITECTURE, re.MULTILINE)


def test_the_layout_names_every_package() -> None:
    packages = [path.parent.relative_to(ROOT) for path in (ROOT / "app").glob("*/__init__.py")]
    assert [str(package) for package in packages if f"`{package}" not in LAYOUT] == []


def test_the_tour_has_ten_stops_that_exist() -> None:
    assert len(TOUR) == 10
    files = [name for stop in TOUR for name in re.findall(r"`([^`]+)`", stop)]
    assert [name for name in files if not (ROOT / name).is_file()] == []
