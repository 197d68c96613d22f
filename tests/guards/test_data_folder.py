"""Each start restricts the files of the service in its data folder, whose names it knows
(docs/run.md#settings-and-the-data-folder)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module

from app.private_folder import OURS
from tests.support.sources import Source, sources


def is_data_folder(node: ast.expr) -> bool:
    """Whether it is `data_dir`, or the attribute of that name of whatever has it."""
    return "data_dir" in (getattr(node, "id", ""), getattr(node, "attr", ""))


def names_in_the_data_folder(module: Source) -> Iterator[str]:
    """The names that the module appends to the folder, as a text or a constant."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and is_data_folder(node.left):
            if isinstance(node.right, ast.Constant):
                yield str(node.right.value)
            elif isinstance(node.right, ast.Name) and node.right.id.isupper():
                yield str(getattr(import_module(module.name), node.right.id))


def test_every_name_in_the_data_folder_is_known() -> None:
    names = {name for module in sources() for name in names_in_the_data_folder(module)}
    assert {"secret_key", "launcher.lock", "requests"} <= names
    assert sorted(name for name in names if not OURS.fullmatch(name)) == []
