"""`/console`: pages for people, rendered by the server (docs/console.md)."""

from blueprints.console import overview, signing
from blueprints.console.blueprint import blp

__all__ = ["blp", "overview", "signing"]
