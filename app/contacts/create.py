"""Creating contacts (docs/contacts.md#attributes), all of one request in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from app.clock import this_second
from app.contacts.counts import count_in_list
from app.contacts.events import record_contact_events
from app.contacts.forgotten import restore_found
from app.contacts.rules import (
    address_errors,
    check_identifiers_free,
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
    addresses_to_look_up,
    requested_subscriptions,
    state_after,
)
from app.contacts.subscriptions import (
    apply_subscriptions,
    lock_for_writes,
)
from app.contacts.triggers import fire
from app.contacts.unsubscriber_entries import UnsubscriberEntries, find_unsubscriber_entries
from app.db.bulk import draw_ids, insert_rows
from app.db.database import Transaction
from app.db.models import Contact
from app.errors import FieldError
from app.lists.fields import ListSpec
from app.query.writes import RemoveUnsubscribers


def create_contacts(
    transaction: Transaction,
    contact_list: ListSpec,
    contacts: Sequence[ContactAttributes],
    *,
    remove_unsubscribers: RemoveUnsubscribers = "none",
    bulk: bool = False,
    allow_system: bool = False,
    long_transaction: bool = False,
) -> list[int]:
    """Creates contacts and returns their ids, in the order of those that `remove_unsubscribers` did not leave out.

    At most some thousands at once; `long_transaction` is for one of many calls in a long transaction. Raises
    `ServiceError` with every broken rule, for `bulk` located by collection and index; the transaction must be rolled
    back then.
    """
    lock_for_writes(transaction, contact_list, contacts, long_transaction=long_transaction)
    writes = [ContactWrite.of(index, BLANK_CONTACT, attributes) for index, attributes in enumerate(contacts)]
    entries = find_unsubscriber_entries(transaction, contact_list, addresses_to_look_up(writes))
    kept = _without_unsubscribers(writes, entries, remove_unsubscribers)
    errors = [*address_errors(contact_list, contacts, bulk), *system_errors(contact_list, allow_system)]
    if contacts and not kept:
        errors.append(FieldError("no_subscribed_addresses", "remove_unsubscribers"))
    raise_in_order(errors)

    moment = this_second()
    restore_found(transaction, contact_list.account_id, entries, addresses_to_look_up(kept))
    subscriptions = requested_subscriptions(kept)
    results = [(write, state_after(contact_list, write, entries, subscriptions, moment)) for write in kept]
    check = partial(check_identifiers_free, transaction, contact_list, requested_identifiers(results), bulk=bulk)
    check()
    ids = draw_ids(transaction, Contact, len(results))
    with unique_violation_as_conflict(transaction, check):
        rows = _rows(ids, [state for _, state in results])
        insert_rows(transaction, Contact, rows, shared_columns(contact_list, moment))
    count_in_list(transaction, contact_list, len(ids))
    created = [(contact_list.id, contact_id) for contact_id in ids]
    others = apply_subscriptions(transaction, contact_list.account_id, entries, subscriptions, moment)
    record_contact_events(transaction, contact_list.account_id, "created", created, moment)
    record_contact_events(transaction, contact_list.account_id, "updated", others, moment)
    fire(transaction, contact_list, "created", [contact_id for _, contact_id in created])
    return ids


def _without_unsubscribers(
    writes: list[ContactWrite], entries: UnsubscriberEntries, mode: RemoveUnsubscribers
) -> list[ContactWrite]:
    """Without the contacts that the mode leaves out, because one of their addresses is unsubscribed."""
    if mode == "none":
        return writes
    is_unsubscribed = entries.has_any if mode == "any" else entries.has_own
    return [
        write
        for write in writes
        if not any(is_unsubscribed(address) for address in write.addresses.values() if address is not None)
    ]


def shared_columns(contact_list: ListSpec, moment: datetime) -> dict[str, Any]:
    """The columns that contacts created together have in common."""
    return {
        "account_id": contact_list.account_id,
        "list_id": contact_list.id,
        "creation_time": moment,
        "last_modified_time": moment,
    }


def _rows(ids: Sequence[int], states: Sequence[ContactState]) -> list[dict[str, Any]]:
    rows = [{"id": contact_id, **state} for contact_id, state in zip(ids, states, strict=True)]
    # In the same order for all requests: of two that write the same identifiers one waits, without a deadlock.
    return sorted(rows, key=lambda row: row["identifier"] or "")
