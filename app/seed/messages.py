"""Seeding messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.db.lookup import find_by_name
from app.db.models import Message
from app.messages.define import create_message, update_message
from app.seed.shape import located
from app.seed.target import Target


def bring_messages(target: Target, described: Sequence[Mapping[str, Any]]) -> None:
    """Messages, found by their name."""
    for index, one in enumerate(described):
        message = find_by_name(target.transaction, Message, target.account.id, one["name"].strip())
        created, updated = message is None, False
        with located(f"{target.path}.messages[{index}]"):
            if message is None:
                message = create_message(target.transaction, target.account.id, one)
            else:
                updated = update_message(target.transaction, message, one)
        target.report.messages.append({"id": message.id, "name": message.name})
        target.report.count("message", created=created, updated=updated)
