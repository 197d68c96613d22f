"""Creating contacts (specification: Contacts; decisions: 5 and 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from app.automations.triggers import fire
from app.clock import this_second
from app.contacts.events import announce
from app.contacts.identifiers import Claim, check_free, guarded
from app.contacts.rules import address_errors, raise_in_order, system_errors
from app.contacts.state import BLANK, Edit, State, after, looked_up, wishes_of
from app.contacts.subscriptions import KINDS, Entries, entries_of, follow_wishes, lock_for_writes
from app.db.bulk import draw_ids, insert_rows
from app.db.database import Transaction
from app.db.models import Contact
from app.errors import FieldError
from app.lists.fields import ListSpec
from app.query.writes import RemoveUnsubscribers


def create_contacts(
    transaction: Transaction,
    lst: ListSpec,
    drafts: Sequence[Mapping[str, Any]],
    *,
    remove_unsubscribers: RemoveUnsubscribers = "none",
    bulk: bool = False,
    allow_system: bool = False,
    lasting: bool = False,
) -> list[int]:
    """Creates contacts and returns their ids, in the order of the drafts that were not skipped.

    A draft holds attributes by name, checked by type: `email`, `mobile`, `subscribed` (`{"email": bool, "mobile":
    bool}`), `is_active`, `double_opt_in` and list field keys. At most some thousands at once; `lasting` is for one of
    many calls in a long transaction. Raises `ServiceError` with every broken rule, for `bulk` located by collection
    and index; then nothing may be kept of the transaction.
    """
    lock_for_writes(transaction, lst.account_id, drafts, lasting=lasting)
    edits = [Edit(index, BLANK, draft) for index, draft in enumerate(drafts)]
    entries = entries_of(transaction, lst.account_id, lst.id, looked_up(edits))
    kept = [edit for edit in edits if not _is_skipped(edit, entries, remove_unsubscribers)]
    errors = [*address_errors(lst, drafts, bulk), *system_errors(lst, allow_system)]
    if drafts and not kept:
        errors.append(FieldError("no_subscribed_addresses", "remove_unsubscribers"))
    raise_in_order(errors)

    moment = this_second()
    wishes = wishes_of(kept)
    states = [after(lst, edit, entries, wishes, moment) for edit in kept]
    claims = [Claim(edit.index, state["identifier"]) for edit, state in zip(kept, states, strict=True)]
    check = partial(
        check_free, transaction, lst, [claim for claim in claims if claim.identifier is not None], bulk=bulk
    )
    check()
    ids = draw_ids(transaction, Contact, len(states))
    with guarded(transaction, check):
        insert_rows(transaction, Contact, _rows(ids, states), shared_columns(lst, moment))
    created = [(lst.id, contact_id) for contact_id in ids]
    others = follow_wishes(transaction, lst.account_id, entries, wishes, moment)
    announce(transaction, lst.account_id, "created", created, moment)
    announce(transaction, lst.account_id, "updated", others, moment)
    fire(transaction, lst.account_id, "created", created)
    return ids


def _is_skipped(edit: Edit, entries: Entries, mode: RemoveUnsubscribers) -> bool:
    """Whether an address of the draft is unsubscribed in the sense of the mode (specification: Contacts, rule 2)."""
    if mode == "none":
        return False
    stops = entries.anywhere if mode == "any" else entries.under_list
    return any(stops(address) for kind in KINDS if (address := edit.address(kind)) is not None)


def shared_columns(lst: ListSpec, moment: datetime) -> dict[str, Any]:
    """What contacts that are created together have in common."""
    return {
        "account_id": lst.account_id,
        "list_id": lst.id,
        "creation_time": moment,
        "last_modified_time": moment,
    }


def _rows(ids: Sequence[int], states: Sequence[State]) -> list[dict[str, Any]]:
    rows = [{"id": contact_id, **state} for contact_id, state in zip(ids, states, strict=True)]
    # In one order for all requests: two that claim the same identifiers wait for each other, never both.
    return sorted(rows, key=lambda row: row["identifier"] or "")
