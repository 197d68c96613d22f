"""A person who joins lists by an address that a message went to (docs/preferences.md#what-a-choice-does)."""

from __future__ import annotations

from collections.abc import Sequence

from app.addresses import AddressKind
from app.clock import this_second
from app.contacts.counts import count_in_list
from app.contacts.create import shared_columns
from app.contacts.events import record_contact_events
from app.contacts.state import BLANK_CONTACT, ContactWrite, state_after
from app.contacts.triggers import fire_in_lists
from app.contacts.unsubscriber_entries import UnsubscriberEntries
from app.db.bulk import draw_ids, insert_new_rows
from app.db.database import Transaction
from app.db.models import Contact
from app.lists.fields import ListSpec


def join_lists(transaction: Transaction, contact_lists: Sequence[ListSpec], kind: AddressKind, address: str) -> None:
    """Creates a subscribed contact with the address, and nothing else, in each of these lists of one account, with the
    events and triggers of those that a send creates. A fixed number of statements.

    The address has no contact and no unsubscriber entry in the lists, and the transaction holds `lock_subscriptions`.
    """
    if not contact_lists:
        return
    account_id, moment = contact_lists[0].account_id, this_second()
    ids = draw_ids(transaction, Contact, len(contact_lists))
    write = ContactWrite.of(0, BLANK_CONTACT, {kind: address})
    rows = [
        {
            "id": contact_id,
            **shared_columns(contact_list, moment),
            **state_after(
                contact_list, write, UnsubscriberEntries(contact_list.id, {}, contact_list.unique_kind), {}, moment
            ),
        }
        for contact_id, contact_list in zip(ids, contact_lists, strict=True)
    ]
    # A long import, which takes no lock on addresses, may have created the contact of a list meanwhile.
    created = dict(_inserted(transaction, rows))
    joined = [contact_list for contact_list in contact_lists if contact_list.id in created]
    for contact_list in joined:
        count_in_list(transaction, contact_list, 1)
    record_contact_events(transaction, account_id, "created", created.items(), moment)
    fire_in_lists(transaction, account_id, "created", [(of, [created[of.id]]) for of in joined])


def _inserted(transaction: Transaction, rows: Sequence[dict[str, object]]) -> list[tuple[int, int]]:
    """List and id of each contact that was written, in the order of the lists."""
    written = insert_new_rows(transaction, Contact, rows, returning=("list_id", "id"))
    return sorted((int(list_id), int(contact_id)) for list_id, contact_id in written)
