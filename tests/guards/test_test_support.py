"""tests/support/README.md names every module of its folder once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "support"
ROW = re.compile(r"^\| [^|]+ \| (`[^|]+`) \|", re.MULTILINE)


def test_the_page_names_every_module_once() -> None:
    page = (FOLDER / "README.md").read_text("utf-8")
    named = Counter(name for modules in ROW.findall(page) for name in re.findall(r"`(\w+)`", modules))
    packages = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    modules = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert named == Counter(modules | packages)
