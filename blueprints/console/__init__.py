"""`/console`: pages for people, rendered by the server (docs/console.md)."""

import pkgutil
from importlib import import_module

from blueprints.console.blueprint import blp

__all__ = ["blp"]

# Each module adds its pages to the blueprint.
for name in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    import_module(f"{__package__}.{name}")
