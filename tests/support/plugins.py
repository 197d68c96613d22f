"""Installs plugins for a test: a real distribution on the path with entry points."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


def install(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    entry_points: dict[str, str],
    group: str = "tms.blueprints",
    **modules: str,
) -> None:
    """Puts a distribution on the path. `entry_points` are name -> reference in the group; `modules` are name ->
    source."""
    write(folder, entry_points, group, **modules)
    for name in modules:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(folder))


def write(folder: Path, entry_points: dict[str, str], group: str = "tms.blueprints", **modules: str) -> None:
    """Writes the distribution, for a process that has the folder on its path."""
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    about = folder / "tms_plugin_of_a_test-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tms-plugin-of-a-test\nVersion: 1.0\n")
    lines = [f"{name} = {reference}" for name, reference in entry_points.items()]
    (about / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
