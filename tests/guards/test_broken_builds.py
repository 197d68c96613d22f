"""The names that hooks and deliberately broken builds patch still exist; otherwise those builds would be sound
(docs/reliability.md, docs/security.md#attacks)."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import reduce

from tests.attack.families import FAMILIES
from tests.attack.inside import breaks as without_guards
from tests.chaos.broken.breaks import BREAKS
from tests.chaos.hooks import HOOKS, Change
from tests.support.breaking import Break
from tests.support.cases import each

ALL: dict[str, Break] = {**BREAKS, **HOOKS, **without_guards.BREAKS}


@each("name", ALL)
def test_what_a_hook_replaces_exists(name: str) -> None:
    module = importlib.import_module(ALL[name].module)
    replaced = set(names_of(ALL[name].change))
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


def test_each_family_of_attacks_has_a_build_without_its_guard() -> None:
    assert {one.family for one in without_guards.BREAKS.values()} == set(FAMILIES)
