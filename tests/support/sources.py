"""The modules of the code base as syntax trees, for tests of the code base itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("app", "blueprints", "schemas", "jobs")

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

    def imports(self) -> Iterator[tuple[str, int]]:
        """The full names of the imported modules with the lines of the imports; `from a import b` means a.b if that is
        a module of ours, else a."""
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
    path = ROOT.joinpath(*parts)
    return parts[0] in PACKAGES and (path.with_suffix(".py").is_file() or (path / "__init__.py").is_file())


@cache
def sources() -> tuple[Source, ...]:
    """All modules of the packages, by name."""
    return tuple(_read(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))


def source(name: str) -> Source:
    """The module of that name."""
    return next(one for one in sources() if one.name == name)


def _read(path: Path) -> Source:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return Source(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path)
