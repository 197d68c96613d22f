"""Deleting contacts (docs/contacts.md#deleting). The unsubscriber entries of their addresses are kept."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, select, update

from app.audit.record import Act, record
from app.automations.entry import end_runs_of_deleted
from app.clock import now, this_second
from app.contacts.acts import act_on_contact, act_on_list
from app.contacts.counts import count_in_list, forget_count
from app.contacts.events import record_contact_events
from app.contacts.rules import raise_in_order, system_errors
from app.db.database import Transaction
from app.db.models import Contact, List, SendPause
from app.errors import FieldError
from app.lists.fields import ListSpec

BATCH_SIZE = 1000
"""Contacts deleted in one statement when their list is deleted."""


def delete_contacts(
    transaction: Transaction,
    contact_list: ListSpec,
    ids: Collection[int] | None,
    *,
    allow_system: bool = False,
    address_digest: str | None = None,
    has_entry: bool = False,
) -> int:
    """Deletes the contacts with these ids and returns how many there were; ids that the list does not have are ignored.
    `address_digest` is for the audit log, where the address of a contact is known; `has_entry` says that this is part
    of an act that the log has already.

    Raises `list_not_mutable` for a system list and `filter_id_required` if no ids were named (None)
    (docs/contacts.md#system-lists).
    """
    errors = system_errors(contact_list, allow_system)
    if ids is None:
        errors.append(FieldError("filter_id_required", "id"))
    raise_in_order(errors)
    if not ids:
        return 0
    deleted = _delete(transaction, contact_list, ids)
    count_in_list(transaction, contact_list, -deleted)
    if deleted and not has_entry:
        record(transaction, _deletion(contact_list, ids, deleted, address_digest))
    return deleted


def _deletion(contact_list: ListSpec, ids: Collection[int], deleted: int, address_digest: str | None) -> Act:
    """One entry, however many contacts were named."""
    if len(ids) == 1:
        (contact_id,) = ids
        return act_on_contact("contact.deleted", contact_list, contact_id, address_digest=address_digest)
    return act_on_list("contact.deleted", contact_list, contacts=deleted)


def _delete(transaction: Transaction, contact_list: ListSpec, ids: Collection[int]) -> int:
    """Deletes the contacts with their events; the caller counts."""
    if contact_list.has_automations:
        end_runs_of_deleted(transaction, contact_list.account_id, contact_list.id, ids)
    statement = delete(Contact).where(Contact.list_id == contact_list.id, Contact.id.in_(ids)).returning(Contact.id)
    rows = transaction.execute(statement, execution_options={"synchronize_session": False})
    deleted = sorted(rows.scalars())
    record_contact_events(
        transaction,
        contact_list.account_id,
        "deleted",
        [(contact_list.id, contact_id) for contact_id in deleted],
        this_second(),
    )
    return len(deleted)


def delete_list(transaction: Transaction, contact_list: ListSpec) -> int:
    """Deletes the list after its contacts, each with its event; returns how many contacts there were."""
    # The lock keeps requests from adding contacts meanwhile, which would be deleted without an event.
    is_list = List.account_id == contact_list.account_id, List.id == contact_list.id
    if transaction.scalar(select(List.id).where(*is_list).with_for_update()) is None:
        return 0
    # In an order of which there is an index: in that of ids SQLite would read the contacts of all lists.
    order = Contact.creation_time, Contact.id
    batch = select(Contact.id).where(Contact.list_id == contact_list.id).order_by(*order).limit(BATCH_SIZE)
    deleted = 0
    while ids := transaction.scalars(batch).all():
        deleted += _delete(transaction, contact_list, ids)
    forget_count(transaction, contact_list.id)
    # What its pause has put aside is let go.
    pauses = update(SendPause).where(SendPause.list_id == contact_list.id, SendPause.resumed_time.is_(None))
    transaction.execute(pauses.values(resumed_time=now()), execution_options={"synchronize_session": False})
    transaction.execute(delete(List).where(*is_list), execution_options={"synchronize_session": False})
    record(transaction, act_on_list("list.deleted", contact_list, contacts=deleted))
    return deleted
