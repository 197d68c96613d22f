"""Builds that are broken on purpose: one module is patched right after it is loaded, so that every import from it gets
the patched version."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Protocol

Change = Callable[[Any], None]


class Break(Protocol):
    """The module, and what is changed in it."""

    @property
    def module(self) -> str:
        """The full name of the module."""

    @property
    def change(self) -> Change:
        """The patch."""


class Breaking(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Patches the module; `sitecustomize` of a broken build puts it in front of `sys.meta_path`."""

    def __init__(self, patch: Break) -> None:
        self._break = patch
        self._loader: importlib.abc.Loader | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Replaces the loader of that module."""
        if name != self._break.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Loads the module and patches it."""
        assert self._loader is not None
        self._loader.exec_module(module)
        self._break.change(module)
