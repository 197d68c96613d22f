"""Bringing contacts to a described state, for the seed file and for imports: who is missing is created, others change.

Contacts are found by what tells them apart in their list (decisions: 5). The use cases are those of the API, so that
events, triggers and unsubscribers are the same whatever caused the change (decisions: 9).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select

from app.addresses import email_key
from app.contacts.create import create_contacts
from app.contacts.subscriptions import KEYS, Kind
from app.contacts.update import update_contacts
from app.db.database import Transaction
from app.db.models import Contact
from app.errors import ErrorCollector, ServiceError
from app.lists.fields import ListSpec

AT_ONCE = 1000
"""Contacts in one round of statements."""

Draft = Mapping[str, Any]
"""Attributes as in `create_contacts`."""


@dataclass(slots=True)
class Upserted:
    """How many contacts were created, and how many of the others differ now."""

    created: int = 0
    updated: int = 0


def upsert_contacts(
    transaction: Transaction,
    lst: ListSpec,
    drafts: Sequence[Draft],
    *,
    allow_system: bool = False,
    on_progress: Callable[[int], object] = lambda _count: None,
) -> Upserted:
    """Creates or updates one contact per draft; `on_progress` hears after each round how many were done in it.

    In a list that allows duplicates, drafts with the same identifier stand for its contacts from the oldest on.
    Raises `ServiceError` located by collection and index; then nothing may be kept of the transaction.
    """
    kind = _identifier(lst, drafts)
    brought, given = Upserted(), set[int]()
    for start in range(0, len(drafts), AT_ONCE):
        chunk = drafts[start : start + AT_ONCE]
        found = list(enumerate(_take(transaction, lst.id, kind, chunk, given)))
        missing = [index for index, contact_id in found if contact_id is None]
        present = [(index, contact_id) for index, contact_id in found if contact_id is not None]
        with _renumbered([start + index for index in missing]):
            new = [chunk[index] for index in missing]
            given.update(create_contacts(transaction, lst, new, bulk=True, allow_system=allow_system, lasting=True))
        with _renumbered([start + index for index, _ in present]):
            changes = [(contact_id, chunk[index]) for index, contact_id in present]
            brought.updated += update_contacts(
                transaction, lst, changes, bulk=True, allow_system=allow_system, lasting=True
            )
        brought.created += len(missing)
        on_progress(len(chunk))
    return brought


def _identifier(lst: ListSpec, drafts: Sequence[Draft]) -> Kind:
    """What the contacts are found by. Raises `ServiceError` where the list has no such thing, or a draft lacks it."""
    if lst.identifier is None:
        detail = "the list has neither an Email nor a Mobile Phone field by which its contacts could be found"
        raise ServiceError("list_address_field_missing", collection="contacts", index=0, detail=detail)
    errors = ErrorCollector()
    detail = f"{lst.identifier} is required: contacts of this list are found by it."
    for index, draft in enumerate(drafts):
        if draft.get(lst.identifier) is None:
            errors.add("required", field=lst.identifier, collection="contacts", index=index, detail=detail)
    errors.raise_any()
    return lst.identifier


def _take(
    transaction: Transaction, list_id: int, kind: Kind, drafts: Sequence[Draft], given: set[int]
) -> list[int | None]:
    """The contact that each draft stands for, None where there is none; adds those to `given`, who are taken."""
    keys: list[str] = [email_key(draft[kind]) if kind == "email" else draft[kind] for draft in drafts]
    column = KEYS[kind]
    statement = (
        select(column, Contact.id)
        .where(Contact.list_id == list_id, column.in_(keys))
        .order_by(Contact.creation_time.desc(), Contact.id.desc())
    )
    free: defaultdict[str, list[int]] = defaultdict(list)
    for key, contact_id in transaction.execute(statement):
        if contact_id not in given:
            free[key].append(contact_id)
    found = [free[key].pop() if free[key] else None for key in keys]
    given.update(contact_id for contact_id in found if contact_id is not None)
    return found


@contextmanager
def _renumbered(positions: Sequence[int]) -> Iterator[None]:
    """Errors of some of the drafts name their positions among all of them."""
    try:
        yield
    except ServiceError as error:
        errors = [one if one.index is None else replace(one, index=positions[one.index]) for one in error.errors]
        raise ServiceError.of(errors, taken=error.taken) from None
