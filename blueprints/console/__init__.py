"""`/console`: pages for people, rendered by the server (docs/console.md)."""

from blueprints.console import audit, content, deliveries, keys, messages, overview, signing, suppressions, webhooks
from blueprints.console.blueprint import blp

__all__ = [
    "audit",
    "blp",
    "content",
    "deliveries",
    "keys",
    "messages",
    "overview",
    "signing",
    "suppressions",
    "webhooks",
]
