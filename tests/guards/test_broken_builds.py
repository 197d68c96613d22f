"""Hooks and deliberately broken builds replace what exists by what takes the same calls, and say what must be found;
otherwise those builds would be sound, or broken in another way (docs/fault-tests.md, docs/security-tests.md#attacks).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import reduce
from inspect import Parameter
from typing import Any

import pytest

from tests.attack.families import FAMILIES
from tests.attack.inside import breaks as without_guards
from tests.chaos.__main__ import parse
from tests.chaos.broken.breaks import BREAKS
from tests.chaos.hooks import HOOKS, Change
from tests.chaos.promises import AFTERWARDS, CHECKS, FAILED_ROUND
from tests.support.breaking import Break
from tests.support.cases import each

BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
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
    function = parsed(change)
    (module,) = function.args.args
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and (path := ast.unparse(node)).startswith(f"{module.arg}."):
            yield path.partition(".")[2]


def parsed(change: Change) -> ast.FunctionDef:
    """The source of a patch."""
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(change))).body
    assert isinstance(function, ast.FunctionDef)
    return function


@each("name", ALL)
def test_a_patch_replaces_nothing_by_way_of_a_variable(name: str) -> None:
    """The next test could not take it back, and whatever runs after it in its process would be broken."""
    function = parsed(ALL[name].change)
    variables = {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    assert [path for path in targets_of(ALL[name].change) if path.partition(".")[0] in variables] == []


# ------------------------------------------------------------------------------------------ calls


def test_what_replaces_a_function_takes_the_same_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAOS_CLOCK", "/nowhere")
    misfits = {name: misfits_of(broken.change, importlib.import_module(broken.module)) for name, broken in ALL.items()}
    assert {name: differences for name, differences in misfits.items() if differences} == {}


def test_a_replacement_with_fewer_parameters_is_found() -> None:
    def narrow(module: Any) -> None:
        module.owner_of = lambda path, change: (path, change)

    assert set(misfits_of(narrow, sys.modules[__name__])) == {"module.owner_of: too many positional arguments"}


def misfits_of(change: Change, module: Any) -> list[str]:
    """The functions that the patch replaces, with what is wrong about the replacement. The patch is taken back."""
    if not targets_of(change):
        return []
    owners = [(path, *owner_of(path, change, module)) for path in targets_of(change) if is_global(path, change)]
    before = [(owner, name, inspect.getattr_static(owner, name), getattr(owner, name)) for _, owner, name in owners]
    try:
        change(module)
        after = [getattr(owner, name) for _, owner, name in owners]
    finally:
        for owner, name, value, _ in before:
            setattr(owner, name, value)
    return [
        f"{path}: {misfit}"
        for (path, _, _), (*_, old), new in zip(owners, before, after, strict=True)
        if inspect.isroutine(old)
        for misfit in misfits_between(old, new)
    ]


def targets_of(change: Change) -> list[str]:
    """The dotted names to which the patch assigns."""
    targets = [target for node in ast.walk(parsed(change)) if isinstance(node, ast.Assign) for target in node.targets]
    flat = [element for target in targets for element in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [ast.unparse(element) for element in flat if isinstance(element, ast.Attribute)]


def is_global(path: str, change: Change) -> bool:
    """Whether the name is one of the patched module or of an imported one, not of a variable of the patch."""
    first = path.partition(".")[0]
    return first in (*inspect.signature(change).parameters, *inspect.getmodule(change).__dict__)


def owner_of(path: str, change: Change, module: Any) -> tuple[Any, str]:
    """The module or class that has the name, and the last part of it."""
    first, *between, name = path.split(".")
    is_patched = first == next(iter(inspect.signature(change).parameters))
    start = module if is_patched else inspect.getmodule(change).__dict__.get(first)
    return reduce(getattr, between, start), name


def misfits_between(old: Callable[..., Any], new: Callable[..., Any]) -> list[str]:
    """Why the new function does not take a call that the old one takes: with all arguments, and with the required ones
    alone, or with the optional ones by their names."""
    try:
        parameters = inspect.signature(old).parameters.values()
    except ValueError:
        return []  # of a builtin
    places = [
        parameter
        for parameter in parameters
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    required = [parameter for parameter in places if parameter.default is Parameter.empty]
    named = {parameter.name: None for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY}
    if any(
        parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters
    ):  # then it takes whatever the new one requires
        others = list(inspect.signature(new).parameters.values())[len(places) :]
        named |= {
            parameter.name: None
            for parameter in others
            if parameter.default is Parameter.empty and parameter.kind in BY_NAME
        }
    optional = {parameter.name: None for parameter in places if parameter.default is not Parameter.empty}
    calls = ((places, named), (required, named), (required, {**named, **optional}))
    misfits = []
    for positional, keywords in calls:
        try:
            inspect.signature(new).bind(*positional, **keywords)
        except TypeError as error:
            misfits.append(str(error))
    return misfits


# ------------------------------------------------------------------------------------------ what must be found


@each("name", BREAKS)
def test_a_broken_build_names_its_fault_and_the_check_that_finds_it(name: str) -> None:
    build = BREAKS[name]
    assert build.fault in parse([]).names
    assert build.shows in CHECKS.keys() - {AFTERWARDS, FAILED_ROUND}
    assert set(build.beside) <= CHECKS.keys() - {FAILED_ROUND}


@each("name", without_guards.BREAKS)
def test_a_build_without_a_guard_names_an_attack_of_its_family(name: str) -> None:
    build = without_guards.BREAKS[name]
    assert f'"{build.shows}"' in "".join(map(inspect.getsource, modules_of(build.family)))


def modules_of(family: str) -> list[Any]:
    """The module of the family's attack, and the families that it imports."""
    package = "tests.attack.families."
    module = sys.modules[FAMILIES[family].attack.__module__]
    used = {getattr(value, "__module__", None) or getattr(value, "__name__", "") for value in vars(module).values()}
    return [module, *(sys.modules[name] for name in sorted(filter(None, used)) if name.startswith(package))]


def test_each_family_of_attacks_has_a_build_without_its_guard() -> None:
    assert {broken.family for broken in without_guards.BREAKS.values()} == set(FAMILIES)
