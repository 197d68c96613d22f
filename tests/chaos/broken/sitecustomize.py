"""Applies the hooks that CHAOS_HOOKS names: Python imports this module first if its folder is on the path."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from tests.chaos.broken.breaks import BREAKS
from tests.chaos.hooks import HOOKS, Hook


class Patching(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Patches one module right after it is loaded, so that every import from it gets the patched version."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._loader: importlib.abc.Loader | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Replaces the loader of that module."""
        if name != self._hook.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Loads the module and patches it."""
        assert self._loader is not None
        self._loader.exec_module(module)
        self._hook.change(module)


for name in os.environ["CHAOS_HOOKS"].split(","):
    sys.meta_path.insert(0, Patching(BREAKS[name] if name in BREAKS else HOOKS[name]))
