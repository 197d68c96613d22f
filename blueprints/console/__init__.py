"""`/console`: pages for people, rendered by the server (docs/console.md)."""

from blueprints.console import (
    audit,
    contacts,
    content,
    deliveries,
    keys,
    lists,
    messages,
    overview,
    signing,
    suppressions,
    webhooks,
)
from blueprints.console.blueprint import blp

__all__ = [
    "audit",
    "blp",
    "contacts",
    "content",
    "deliveries",
    "keys",
    "lists",
    "messages",
    "overview",
    "signing",
    "suppressions",
    "webhooks",
]
