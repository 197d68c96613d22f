"""The console's files: those of other projects are what the lock says, and no page has a script or style of its own
(docs/console-development.md#assets, docs/console-security.md)."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from tests.support.cases import each

APP = Path(__file__).parents[2] / "app"
VENDOR = APP / "static" / "vendor"
LOCK = json.loads((VENDOR / "lock.json").read_text("utf-8"))
TEMPLATES = sorted((APP / "templates" / "console").glob("*.html"))


def test_the_files_of_other_projects_are_those_of_the_lock() -> None:
    """`make vendor` brings the files up to date."""
    locked = {name: file["sha256"] for package in LOCK["packages"] for name, file in package["files"].items()}
    packaged = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.iterdir()
        if path.name != "lock.json"
    }
    assert packaged == locked


def test_the_lock_pins_each_package_with_its_licence() -> None:
    for package in LOCK["packages"]:
        assert set(package) == {"name", "wanted", "version", "integrity", "licence", "files"}
        assert re.fullmatch(r"\d+\.\d+\.\d+(-[\w.]+)?", package["version"])
        assert package["integrity"].startswith("sha512-")
        assert package["licence"]
        assert any(name.endswith(".LICENSE.txt") for name in package["files"])


@each("template", TEMPLATES)
def test_a_page_has_no_script_style_or_markup_of_its_own(template: Path) -> None:
    text = template.read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|hx-on|\|\s*safe|autoescape|https?://", text)
    assert re.findall(r"<script(?! src=\"\{\{ asset_url\()", text) == []


def test_nothing_is_loaded_from_elsewhere() -> None:
    texts = [path.read_text("utf-8") for path in (APP / "static" / "console").iterdir()]
    texts.append((VENDOR / "pico.min.css").read_text("utf-8"))
    assert [address for text in texts for address in re.findall(r"url\((?!\"?data:)|@import|import\(", text)] == []
