"""The modules of the code base as syntax trees, for tests of the code base itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("app", "blueprints", "schemas", "jobs")
LIBRARY = "transactional_messaging"
"""The package of clients/python, which knows nothing of the others."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One module."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        """The source code."""
        return self.path.read_text("utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Parsed at the first use: the collection of some tests needs only the names."""
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        """The number of its lines."""
        return len(self.text.splitlines())

    def functions(self) -> Iterator[Function]:
        """Every function and method, including nested ones."""
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                yield node

    def imports(self) -> tuple[tuple[str, int], ...]:
        """The full names of the imported modules with the lines of the imports; `from a import b` means a.b if that is
        a module of ours, else a."""
        return self._imports

    def imported_names(self, package: str) -> Iterator[str]:
        """The names that it imports from modules of that package."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and f"{self._origin(node)}.".startswith(f"{package}."):
                yield from (alias.name for alias in node.names)

    @cached_property
    def _imports(self) -> tuple[tuple[str, int], ...]:
        """Read once: many tests ask every module."""
        return tuple(self._read_imports())

    def _read_imports(self) -> Iterator[tuple[str, int]]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                origin = self._origin(node)
                for alias in node.names:
                    inner = f"{origin}.{alias.name}"
                    yield (inner if is_module(inner) else origin), node.lineno

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]
        parents = package.split(".")[: len(package.split(".")) - node.level + 1]
        return ".".join([*parents, *([node.module] if node.module else [])])


def is_module(name: str) -> bool:
    """Whether the dotted name is a module or package of this code base."""
    parts = name.split(".")
    path = _home(parts[0]).joinpath(*parts)
    return parts[0] in (*PACKAGES, LIBRARY) and (path.with_suffix(".py").is_file() or (path / "__init__.py").is_file())


def dotted(node: ast.AST) -> str:
    """A name or a chain of attributes as it is written, such as `time.monotonic`; empty for any other node."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (origin := dotted(node.value)):
        return f"{origin}.{node.attr}"
    return ""


@cache
def sources() -> tuple[Source, ...]:
    """All modules of the packages, by name."""
    return tuple(_read(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))


@cache
def library_sources() -> tuple[Source, ...]:
    """All modules of the client library, by name."""
    return tuple(_read(path) for path in sorted((_home(LIBRARY) / LIBRARY).rglob("*.py")))


def source(name: str) -> Source:
    """The module of that name."""
    modules = library_sources() if name.partition(".")[0] == LIBRARY else sources()
    return next(module for module in modules if module.name == name)


def _home(package: str) -> Path:
    return ROOT / "clients" / "python" / "src" if package == LIBRARY else ROOT


def _read(path: Path) -> Source:
    home = _home(LIBRARY) if path.is_relative_to(_home(LIBRARY)) else ROOT
    parts = path.relative_to(home).with_suffix("").parts
    return Source(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path)
