"""`/console`: pages for people, rendered by the server (docs/console.md)."""

from blueprints.console import messages, overview, signing
from blueprints.console.blueprint import blp

__all__ = ["blp", "messages", "overview", "signing"]
