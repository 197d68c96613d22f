"""`/console`: pages for people, rendered by the server (docs/console.md)."""

from blueprints.console import (
    audit,
    contact_import,
    contacts,
    content,
    deliveries,
    domains,
    keys,
    lists,
    messages,
    overview,
    people,
    senders,
    signing,
    stored_message,
    stored_messages,
    suppressions,
    webhooks,
)
from blueprints.console.blueprint import blp

__all__ = [
    "audit",
    "blp",
    "contact_import",
    "contacts",
    "content",
    "deliveries",
    "domains",
    "keys",
    "lists",
    "messages",
    "overview",
    "people",
    "senders",
    "signing",
    "stored_message",
    "stored_messages",
    "suppressions",
    "webhooks",
]
