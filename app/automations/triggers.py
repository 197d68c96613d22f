"""Triggers of automations, recorded in the transaction of the change (docs/contacts.md#events-and-triggers)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from app.clock import now
from app.db.bulk import insert_rows
from app.db.database import Transaction
from app.db.models import TriggerFiring

AutomationKind = Literal["standard", "advanced"]
Action = Literal["created", "updated"]

TRIGGERS: dict[Action, dict[AutomationKind, str]] = {
    "created": {
        "standard": "When a Contact is created from the REST API",
        "advanced": "REST API Contact Created",
    },
    "updated": {
        "standard": "When a Contact is updated from the REST API",
        "advanced": "REST API Contact Updated",
    },
}


def trigger_names(action: Action) -> dict[AutomationKind, str]:
    """The trigger name of the action for each kind of automation."""
    return TRIGGERS[action]


def fire_triggers(
    transaction: Transaction, account_id: int, action: Action, contacts: Sequence[tuple[int, int]]
) -> None:
    """Records that the triggers of an action fired, once per contact.

    `contacts` are pairs of list id and contact id. One row serves both kinds of automation: each sees it under its own
    trigger's name.
    """
    rows = [{"list_id": list_id, "contact_id": contact_id} for list_id, contact_id in contacts]
    insert_rows(transaction, TriggerFiring, rows, {"account_id": account_id, "action": action, "time": now()})
