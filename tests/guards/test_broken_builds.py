"""The names that the deliberately broken builds patch still exist; otherwise those builds would be sound
(docs/reliability.md)."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import reduce

from tests.chaos.broken.breaks import BREAKS, Change
from tests.support.cases import each


@each("name", BREAKS)
def test_what_a_broken_build_replaces_exists(name: str) -> None:
    module = importlib.import_module(BREAKS[name].module)
    replaced = set(names_of(BREAKS[name].change))
    assert replaced
    for path in replaced:
        reduce(getattr, path.split("."), module)


def names_of(change: Change) -> Iterator[str]:
    """The names that the function reads or replaces in the module that it is passed, dotted."""
    (function,) = ast.parse(inspect.getsource(change)).body
    assert isinstance(function, ast.FunctionDef)
    (module,) = function.args.args
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and (path := ast.unparse(node)).startswith(f"{module.arg}."):
            yield path.partition(".")[2]
