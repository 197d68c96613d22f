"""Updating contacts (docs/contacts.md#attributes), all of one request in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import bindparam, select, update

from app.audit.record import Act, record
from app.clock import this_second
from app.contacts.events import record_contact_events
from app.contacts.forgotten import restore_found
from app.contacts.rules import (
    address_errors,
    check_identifiers_free,
    element_location,
    raise_in_order,
    requested_identifiers,
    system_errors,
    unique_violation_as_conflict,
)
from app.contacts.state import (
    BLANK_CONTACT,
    ContactAttributes,
    ContactState,
    ContactWrite,
    WriteResult,
    addresses_to_look_up,
    requested_subscriptions,
    state_after,
)
from app.contacts.subscriptions import apply_subscriptions, lock_for_writes, new_subscriptions
from app.contacts.triggers import fire
from app.contacts.unsubscriber_entries import find_unsubscriber_entries
from app.db.database import Transaction
from app.db.models import Contact, table_of
from app.errors import FieldError, ServiceError
from app.ids import describe, shown_id
from app.lists.fields import ListSpec

ContactUpdate = tuple[int, ContactAttributes]
"""A contact's id and the attributes to write; null clears."""


def update_contacts(
    transaction: Transaction,
    contact_list: ListSpec,
    updates: Sequence[ContactUpdate],
    *,
    bulk: bool = False,
    allow_system: bool = False,
    long_transaction: bool = False,
    fires: bool = True,
    act: Act | None = None,
) -> int:
    """Updates contacts and returns how many of them changed; an update without a change has no effect at all.
    `long_transaction` is for one of many calls in a long transaction. What an automation changes itself fires no
    triggers. `act` is recorded in the audit log if there is a change.

    Raises `ServiceError` with every broken rule, for `bulk` located by collection and index; a contact that the list
    does not have is `invalid_id` there and `not_found` in the single form. The transaction must be rolled back then.
    """
    written = [attributes for _, attributes in updates]
    lock_for_writes(transaction, contact_list, written, long_transaction=long_transaction)
    rows = _locked_rows(transaction, contact_list, {contact_id for contact_id, _ in updates})
    _check_rules(contact_list, updates, rows, bulk, allow_system)
    _check_named_once(updates, bulk)

    writes = [
        ContactWrite.of(index, rows[contact_id], attributes) for index, (contact_id, attributes) in enumerate(updates)
    ]
    looked_up = addresses_to_look_up(writes)
    changes_addresses = any(write.changed for write in writes)
    entries = find_unsubscriber_entries(transaction, contact_list, looked_up, changes_addresses=changes_addresses)
    restore_found(transaction, contact_list.account_id, entries, looked_up)
    subscriptions = requested_subscriptions(writes)
    moment = this_second()
    results = [(write, state_after(contact_list, write, entries, subscriptions, moment)) for write in writes]
    changed = [
        (write, state) for write, state in results if any(state[name] != write.before[name] for name in BLANK_CONTACT)
    ]

    _write(transaction, contact_list, changed, moment, bulk)
    also_changed = apply_subscriptions(transaction, contact_list.account_id, entries, subscriptions, moment)
    updated = [(contact_list.id, write.before["id"]) for write, _ in changed]
    record_contact_events(transaction, contact_list.account_id, "updated", [*updated, *also_changed], moment)
    if fires:
        fire(transaction, contact_list, "updated", [contact_id for _, contact_id in updated])
    if act is not None and (changed or new_subscriptions(entries, subscriptions) != ([], [])):
        record(transaction, act)
    return len(changed)


def _locked_rows(transaction: Transaction, contact_list: ListSpec, ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """The contacts by id, locked in the same order for all requests, so that none changes between the read and the
    write."""
    table = table_of(Contact)
    statement = (
        select(table)
        .where(table.c.list_id == contact_list.id, table.c.id.in_(ids))
        .order_by(table.c.id)
        .with_for_update()
    )
    return {row.id: dict(row._mapping) for row in transaction.execute(statement)}


def _check_rules(
    contact_list: ListSpec,
    updates: Sequence[ContactUpdate],
    rows: Mapping[int, ContactState],
    bulk: bool,
    allow_system: bool,
) -> None:
    unknown = {
        index: f"There is no {describe('contact', contact_id)} in list {shown_id(contact_list.id)}."
        for index, (contact_id, _) in enumerate(updates)
        if contact_id not in rows
    }
    if unknown and not bulk:
        raise ServiceError("not_found", detail=unknown[0])
    raise_in_order(
        [
            *(
                FieldError("invalid_id", "id", detail=text, **element_location(index, bulk))
                for index, text in unknown.items()
            ),
            *address_errors(contact_list, [attributes for _, attributes in updates], bulk),
            *system_errors(contact_list, allow_system),
            *(
                FieldError("cannot_reset_double_opt_in", "double_opt_in", **element_location(index, bulk))
                for index, (contact_id, attributes) in enumerate(updates)
                if attributes.get("double_opt_in") is False and rows.get(contact_id, BLANK_CONTACT)["double_opt_in"]
            ),
        ]
    )


def _check_named_once(updates: Sequence[ContactUpdate], bulk: bool) -> None:
    """Raises `conflict` for an id that is named twice, at the second (docs/contacts.md#bulk-requests)."""
    seen: set[int] = set()
    errors = []
    for index, (contact_id, _) in enumerate(updates):
        if contact_id in seen:
            detail = f"id: contact {contact_id} is named by an earlier element of this request."
            errors.append(FieldError("conflict", "id", **element_location(index, bulk), detail=detail))
        seen.add(contact_id)
    if errors:
        repeated = updates[errors[0].index or 0][0]
        raise ServiceError.of(errors, conflict_fields={"id": {"contact_id": repeated}})


def _write(
    transaction: Transaction, contact_list: ListSpec, changed: Sequence[WriteResult], moment: datetime, bulk: bool
) -> None:
    """Writes the states. Raises `conflict` for an identifier that another contact has."""
    identifier_changes = [
        (write, state) for write, state in changed if state["identifier"] != write.before["identifier"]
    ]
    released = {write.before["id"] for write, _ in identifier_changes}
    check = partial(
        check_identifiers_free,
        transaction,
        contact_list,
        requested_identifiers(identifier_changes),
        released=released,
        bulk=bulk,
    )
    check()
    with unique_violation_as_conflict(transaction, check):
        _clear_reassigned_identifiers(transaction, identifier_changes)
        _update_rows(transaction, changed, moment)


def _clear_reassigned_identifiers(transaction: Transaction, identifier_changes: Sequence[WriteResult]) -> None:
    """Clears identifiers that another contact of this request gets: the index checks each row, not the end state."""
    reassigned = {state["identifier"] for _, state in identifier_changes} - {None}
    ids = [write.before["id"] for write, _ in identifier_changes if write.before["identifier"] in reassigned]
    if ids:
        statement = update(Contact).where(Contact.id.in_(ids)).values(identifier=None)
        transaction.execute(statement, execution_options={"synchronize_session": False})


def _update_rows(transaction: Transaction, changed: Sequence[WriteResult], moment: datetime) -> None:
    if not changed:
        return
    columns: dict[str, Any] = {name: bindparam(f"new_{name}") for name in BLANK_CONTACT}
    statement = (
        update(Contact).where(Contact.id == bindparam("contact_id")).values(last_modified_time=moment, **columns)
    )
    in_order = sorted(changed, key=lambda result: result[1]["identifier"] or "")
    rows = [
        {"contact_id": write.before["id"], **{f"new_{name}": state[name] for name in BLANK_CONTACT}}
        for write, state in in_order
    ]
    # On the connection, because the session would take a list of rows for an update by primary key.
    transaction.connection().execute(statement, rows)
