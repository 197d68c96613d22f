"""Triggers of automations, in the transaction of the change (docs/contacts.md#events-and-triggers).

A trigger fires once per contact. It is recorded, and where automations of the list listen, the contacts enter those
whose condition they meet, by the values that they have after the change. For lists without automations, the record is
all that it costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC

from app.automations.definition import Action, fire_triggers
from app.automations.entry import Listener, enter, find_listeners
from app.automations.facts import any_holds
from app.clock import now, zone_of_account
from app.contacts.row import ContactRow, ContactValues, hidden_by, load_contact_rows
from app.db.database import Transaction
from app.db.prepared import DriverStatement
from app.lists.fields import ListSpec

FIRED_TRIGGERS_KEY = "fired triggers"

ContactsOfList = tuple[ListSpec, Sequence[int]]
"""A list and the ids of contacts in it."""


def fire(transaction: Transaction, contact_list: ListSpec, action: Action, contact_ids: Sequence[int]) -> None:
    """Fires the triggers of the action for contacts of the list; at most seven statements, one without automations."""
    fire_in_lists(transaction, contact_list.account_id, action, [(contact_list, contact_ids)])


def fire_in_lists(transaction: Transaction, account_id: int, action: Action, changed: Sequence[ContactsOfList]) -> None:
    """Fires the triggers of the action for contacts of several lists of the account, in as many statements as those of
    one list."""
    fired = [(contact_list.id, contact_id) for contact_list, contact_ids in changed for contact_id in contact_ids]
    fire_triggers(transaction, account_id, action, fired)
    listened_to = [(contact_list, ids) for contact_list, ids in changed if contact_list.has_automations]
    if not listened_to:
        return
    first_ones = _FiredTriggers.of(transaction).first_ones
    new = {contact_list.id: (contact_list, first_ones(action, ids)) for contact_list, ids in listened_to}
    new = {list_id: contacts_of_list for list_id, contacts_of_list in new.items() if contacts_of_list[1]}
    listeners = find_listeners(transaction, new, action) if new else []
    if not listeners:
        return
    is_judged = any(listener.definition.entry.conditions for listener in listeners)
    judged = [contact_id for _, contact_ids in new.values() for contact_id in contact_ids]
    contacts = load_contact_rows(transaction, judged) if is_judged else {}
    entering = [(listener, _who_enter(listener, *new[listener.list_id], contacts)) for listener in listeners]
    present = [entrance for entrance in entering if entrance[1]]
    if present:
        enter(transaction, account_id, present, now())


def _who_enter(
    listener: Listener, contact_list: ListSpec, contact_ids: Sequence[int], contacts: Mapping[int, ContactRow]
) -> Sequence[int]:
    conditions, zone = listener.definition.entry.conditions, zone_of_account(listener.time_zone)
    if conditions is None:
        return contact_ids
    hidden = hidden_by(contact_list)
    return [
        contact_id
        for contact_id in contact_ids
        if contact_id in contacts
        and any_holds(conditions, ContactValues(contacts[contact_id], zone, hidden), zone or UTC)
    ]


class _FiredTriggers:
    """What has fired in a transaction: a contact that is written twice in it enters once. It ends with the
    transaction."""

    def __init__(self) -> None:
        self._contacts: dict[Action, set[int]] = {"created": set(), "updated": set()}

    @classmethod
    def of(cls, transaction: Transaction) -> _FiredTriggers:
        """What has fired in the transaction."""
        kept = transaction.at_commit.setdefault(FIRED_TRIGGERS_KEY, cls())
        if not isinstance(kept, cls):
            raise TypeError("something else is kept under this name")
        return kept

    def first_ones(self, action: Action, contact_ids: Sequence[int]) -> list[int]:
        """The contacts that have not fired the action's triggers yet."""
        fired = self._contacts[action]
        new = [contact_id for contact_id in dict.fromkeys(contact_ids) if contact_id not in fired]
        fired.update(new)
        return new

    def __call__(self) -> Sequence[DriverStatement]:
        """Nothing is left to write at the commit."""
        return ()
