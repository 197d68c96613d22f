"""Senders of text messages, as programs set them up (docs/management.md#senders). Only an operator approves one."""

from __future__ import annotations

from app.db.database import Transaction
from app.db.models import SmsSender
from app.management.noun import ManagedNoun, Manager, Values, list_ids, shape_of
from app.query.fields import FilterType
from app.query.reader import Property, as_timestamp
from app.senders.resource import RESOURCE
from app.senders.senders import KINDS, update_sender

PROPERTIES = {
    "id": Property(SmsSender.id),
    "address": Property(SmsSender.address),
    "kind": Property(SmsSender.kind),
    "list_id": Property(SmsSender.list_id),
    "messages_per_second": Property(SmsSender.messages_per_second),
    "note": Property(SmsSender.note),
    "creation_time": Property(SmsSender.creation_time, as_timestamp),
}
FILTERS = {
    "id": FilterType.INTEGER,
    "address": FilterType.STRING,
    "kind": FilterType.ENUM,
    "list_id": FilterType.INTEGER,
    "creation_time": FilterType.TIMESTAMP,
}


def update(transaction: Transaction, manager: Manager, row: SmsSender, values: Values) -> None:
    """Changes a sender. Raises what `update_sender` raises, and `invalid_id` for another account's list."""
    if values.get("list_id") is not None:
        list_ids(transaction, manager.account_id, [values["list_id"]], "list_id")
    update_sender(row, values)


def delete(transaction: Transaction, _manager: Manager, row: SmsSender) -> None:
    """Withdraws the approval of a sender."""
    transaction.delete(row)


SHAPE = shape_of(SmsSender, RESOURCE.noun, RESOURCE.plural, PROPERTIES, FILTERS, options={"kind": tuple(KINDS)})
SENDERS = ManagedNoun(model=SmsSender, shape=SHAPE, whole=SHAPE, create=None, update=update, delete=delete)
