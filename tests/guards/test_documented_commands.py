"""Commands of README.md and of the pages about installing that tests/docs does not run are run by a target of the
Makefile: its tests read them from the page (tests/support/documented.py)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.blocks import Block, blocks
from tests.support.deployment import processes
from tests.support.sources import ROOT

PAGES = ("README.md", "docs/install.md", "docs/upgrade.md", "docs/backup.md")
TARGET = re.compile(r"`make ([\w-]+)`")
FOLDER = re.compile(r"\btests[/.](\w+)")
LISTED = re.compile(r"^ *\d+\. `[^`]+`", re.MULTILINE)
"""A numbered step that begins with a command, which nothing would run."""


def left_out() -> Iterator[tuple[str, Block]]:
    """The blocks that tests/docs does not run, each with its place."""
    for page in PAGES:
        for block in blocks(ROOT / page):
            if block.not_run:
                yield f"{page}#{block.section}", block


def folders() -> dict[str, set[str]]:
    """Target of the Makefile -> the folders of tests that its commands name."""
    parts = re.split(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    return {name: set(FOLDER.findall(recipe)) for name, recipe in zip(parts[1::2], parts[2::2], strict=True)}


def read_in(folder: Path) -> set[str]:
    """The places that the modules of a folder read."""
    calls = (node for path in folder.rglob("*.py") for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    return {
        str(node.args[0].value)
        for node in calls
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "documented"
        if isinstance(node.args[0], ast.Constant)
    }


def test_a_mark_names_targets_whose_tests_read_the_block() -> None:
    targets, wrong = folders(), []
    for place, block in left_out():
        named = TARGET.findall(str(block.not_run))
        if block.language != "sh" or not named:
            wrong.append(f"{block.place}: no target of the Makefile runs it")
        wrong += [
            f"{block.place}: no test of make {name} reads {place}"
            for name in named
            if not any(place in read_in(ROOT / "tests" / folder) for folder in targets.get(name, ()))
        ]
    assert wrong == []


def test_what_tests_read_is_there_and_marked() -> None:
    marked_places = {place for place, _ in left_out()}
    read = {place for folder in ("installed", "deploy", "rolling") for place in read_in(ROOT / "tests" / folder)}
    assert read == marked_places


def test_no_command_stands_in_a_list() -> None:
    assert {page: LISTED.findall((ROOT / page).read_text("utf-8")) for page in PAGES} == {page: [] for page in PAGES}


def test_the_processes_of_the_page_are_those_of_the_procfile() -> None:
    _, _, rest = (ROOT / "docs/run.md").read_text("utf-8").partition("\n## Processes\n")
    section = rest.partition("\n#")[0]
    commands = re.findall(r"^\| [^|`]+?(?:\[.+?\]\(.+?\))? \| `tms ([^`]+)`", section, re.MULTILINE)
    assert {tuple(command.split()) for command in commands} == processes()
