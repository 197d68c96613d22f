"""What people do to contacts and lists, as the audit log has it (docs/audit.md#actions)."""

from __future__ import annotations

from collections.abc import Iterable

from app.accounts.exports import record_export
from app.audit.record import Act
from app.audit.values import Change
from app.db.database import Database
from app.ids import shown_id
from app.lists.fields import ListSpec


def act_on_list(action: str, contact_list: ListSpec, **counts: int) -> Act:
    """An act on a list, or on many of its contacts."""
    list_id = shown_id(contact_list.id)
    return Act(action, contact_list.account_id, list_id, contact_list.name, object_kind="list", counts=counts)


def record_list_export(database: Database, contact_list: ListSpec, contacts: int) -> None:
    """Records that so many contacts of the list are handed out."""
    list_id, name = shown_id(contact_list.id), contact_list.name
    record_export(database, "list.exported", contact_list.account_id, object_id=list_id, name=name, contacts=contacts)


def act_on_contact(
    action: str,
    contact_list: ListSpec,
    contact_id: int,
    *,
    address_digest: str | None = None,
    fields: Iterable[str] = (),
) -> Act:
    """An act on one contact; of the attributes that were written only the names."""
    changes: list[Change] = [{"field": "list_id", "new": shown_id(contact_list.id)}]
    changes += [{"field": name} for name in sorted(fields)]
    return Act(action, contact_list.account_id, contact_id, address_digest=address_digest, changes=changes)
