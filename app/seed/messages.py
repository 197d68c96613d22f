"""Seeding messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.db.lookup import find_by_name
from app.db.models import Message
from app.ids import shown_id
from app.messages.define import create_message, update_message
from app.seed.context import SeedContext
from app.seed.shape import located


def apply_messages(context: SeedContext, entries: Sequence[Mapping[str, Any]]) -> None:
    """Messages, found by their name."""
    for index, entry in enumerate(entries):
        message = find_by_name(context.transaction, Message, context.account.id, entry["name"].strip())
        created, updated = message is None, False
        with located(f"{context.path}.messages[{index}]"):
            if message is None:
                message = create_message(context.transaction, context.account.id, entry)
            else:
                updated = update_message(context.transaction, message, entry)
        context.report.messages.append({"id": shown_id(message.id), "name": message.name})
        context.report.count("message", created=created, updated=updated)
