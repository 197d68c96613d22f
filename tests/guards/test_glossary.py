"""docs/glossary.md: its terms are few, are in order, occur once, and name modules and classes that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import is_module, source

PAGE = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text("utf-8")
ROW = re.compile(r"^\| (?!term|---)(.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
NAME = re.compile(r"`([\w.]+)`")
MOST_TERMS = 120
"""A reader can learn this many. A term that everybody knows, or that only names a class, needs no entry."""


def terms(group: str) -> list[str]:
    return [term for term, _, _ in ROW.findall(group)]


def names() -> Iterator[str]:
    """The dotted names of the third column."""
    for _, _, cell in ROW.findall(PAGE):
        dotted_names = NAME.findall(cell)
        assert dotted_names, f"no name in {cell}"
        yield from dotted_names


def defined(module: str) -> set[str]:
    """What a module defines at its top level."""
    member_names: set[str] = set()
    for node in source(module).tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            member_names.add(node.name)
        elif isinstance(node, ast.Assign):
            member_names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            member_names.add(node.target.id)
    return member_names


def exists(name: str) -> bool:
    """Whether the name is a module, or a class, function or constant of one."""
    module, _, member = name.rpartition(".")
    return is_module(name) or (is_module(module) and member in defined(module))


def test_its_names_exist() -> None:
    assert [name for name in names() if not exists(name)] == []


def test_its_terms_are_in_alphabetical_order_and_occur_once() -> None:
    groups = [terms(group) for group in PAGE.split("\n## ")[1:]]
    assert len(groups) == 2
    for group in groups:
        assert group == sorted(group, key=str.lower)
    together = [term.lower() for group in groups for term in group]
    assert len(set(together)) == len(together)


def test_its_terms_are_few() -> None:
    assert len(terms(PAGE)) <= MOST_TERMS
