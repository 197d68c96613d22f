"""Who may import what (docs/architecture.md#imports), read from the imports themselves."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.support.sources import PACKAGES, Source, is_module, source, sources

MAY_IMPORT = {
    "app": {"app"},
    "blueprints": {"app", "schemas"},
    "schemas": {"app", "schemas"},
    "jobs": {"app", "jobs"},
}
"""Package -> the packages of ours that its modules may import."""

AT_HOME = {
    "flask": ("app", "app.http", "app.cli", "blueprints"),
    "flask_smorest": ("app.http",),
    "werkzeug": ("app", "app.http", "app.cli"),
    "marshmallow": ("app.http", "schemas"),
    "apispec": ("app.http",),
    "rq": ("app.infrastructure.queueing", "jobs"),
    "gunicorn": ("app.http.server",),
}
"""Library -> the rooms that may import it. A room is a module with all below it; `app` alone is its own module."""

DIALECT_NAMES = {"is_postgresql", "dialect", "dialects"}
"""Names by which code asks for the database that it is on."""

WITHOUT_SQLALCHEMY = ("app.content", "app.transports", "app.events.signing", "app.query.grammar", "blueprints")

IMPURE = {"flask", "sqlalchemy", "redis", "rq", "marshmallow", "requests", "urllib3"}
"""What a pure module imports neither itself nor through another."""


def is_in(module: str, room: str) -> bool:
    """Whether the module belongs to the room."""
    return module == room or (room != "app" and module.startswith(room + "."))


def package_of(module: str) -> str:
    """The top of a dotted name."""
    return module.partition(".")[0]


def found(one: Source, line: int, imported: str) -> str:
    """How a forbidden import is reported."""
    return f"{one.path.name}:{line} {one.name} imports {imported}"


def test_packages_import_only_those_below_them() -> None:
    wrong = [
        found(one, line, imported)
        for one in sources()
        for imported, line in one.imports()
        if package_of(imported) in PACKAGES and package_of(imported) not in MAY_IMPORT[package_of(one.name)]
    ]
    assert wrong == []


@pytest.mark.parametrize("library", AT_HOME)
def test_a_library_is_imported_only_where_it_is_at_home(library: str) -> None:
    wrong = [
        found(one, line, imported)
        for one in sources()
        for imported, line in one.imports()
        if package_of(imported) == library and not any(is_in(one.name, room) for room in AT_HOME[library])
    ]
    assert wrong == []


@pytest.mark.parametrize("room", WITHOUT_SQLALCHEMY)
def test_some_rooms_know_no_sql(room: str) -> None:
    wrong = [
        found(one, line, imported)
        for one in sources()
        for imported, line in one.imports()
        if package_of(imported) == "sqlalchemy" and is_in(one.name, room)
    ]
    assert wrong == []


def test_only_app_db_knows_which_database_it_is() -> None:
    """Everything else writes statements that fit both, or takes them from `app/db`."""
    wrong = [
        f"{one.path.name}:{getattr(node, 'lineno', '?')}"
        for one in sources()
        if not is_in(one.name, "app.db")
        for node in ast.walk(one.tree)
        if DIALECT_NAMES & words(node)
    ]
    assert wrong == []


def words(node: ast.AST) -> set[str]:
    """The words of a name, an attribute or an import."""
    named = (getattr(node, attribute, None) for attribute in ("id", "attr", "name", "module"))
    return {word for name in named if isinstance(name, str) for word in name.split(".")}


@cache
def reach(module: str) -> frozenset[str]:
    """The libraries that a module of ours imports, itself or through other modules of ours."""
    libraries: set[str] = set()
    seen, waiting = set(), [module]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for imported, _ in source(current).imports():
            if is_module(imported):
                waiting.append(imported)
            else:
                libraries.add(package_of(imported))
    return frozenset(libraries)


def test_schemas_import_only_pure_modules_of_the_domain() -> None:
    wrong = [
        found(one, line, imported)
        for one in sources()
        if package_of(one.name) == "schemas"
        for imported, line in one.imports()
        if package_of(imported) == "app" and reach(imported) & IMPURE
    ]
    assert wrong == []


def test_no_import_stands_inside_a_function() -> None:
    wrong = [
        f"{one.path.name}:{node.lineno}"
        for one in sources()
        for function in one.functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert wrong == []


def test_every_module_says_what_it_does() -> None:
    assert [one.name for one in sources() if not ast.get_docstring(one.tree)] == []
