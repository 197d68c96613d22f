"""Blueprints as plugins: modules of `blueprints/` and installed packages with an entry point are registered."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.metadata import entry_points
from types import ModuleType

from app.http.api import Blueprint

PACKAGE = "blueprints"
ENTRY_POINTS = "tms.blueprints"


class PluginError(Exception):
    """A plugin without a blueprint; the service does not start with one."""


def discover(package: str = PACKAGE) -> Iterator[Blueprint]:
    """The blueprints in a stable order: built in by module name, then installed ones by entry point name."""
    folder = importlib.import_module(package)
    for name in sorted(module.name for module in pkgutil.iter_modules(folder.__path__)):
        yield _blueprint_of(importlib.import_module(f"{package}.{name}"))
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        yield _blueprint_of(entry.load())


def _blueprint_of(plugin: ModuleType | Blueprint) -> Blueprint:
    """An entry point may name the module or its blueprint."""
    blueprint = getattr(plugin, "blp", plugin)
    if not isinstance(blueprint, Blueprint):
        raise PluginError(
            f"{getattr(plugin, '__name__', plugin)!s} offers no `blp` of the class app.http.api.Blueprint"
        )
    return blueprint
