"""Events of contacts, written in the transaction of the change (docs/contacts.md#events-and-triggers)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from app.db.database import Transaction
from app.events.outbox import Payload, contact_event, record

ContactKey = tuple[int, int]
"""List id and contact id."""


def record_contact_events(
    transaction: Transaction,
    account_id: int,
    event: Literal["created", "updated", "deleted"],
    contacts: Iterable[ContactKey],
    moment: datetime,
) -> None:
    """Records one event per contact, in their order, each contact once."""
    record(transaction, account_id, contact_events(event, contacts, moment))


def contact_events(
    event: Literal["created", "updated", "deleted"], contacts: Iterable[ContactKey], moment: datetime
) -> list[Payload]:
    """The events, for callers that record them together with others."""
    return [
        contact_event(event, contact_id=contact_id, list_id=list_id, moment=moment)
        for list_id, contact_id in dict.fromkeys(contacts)
    ]
