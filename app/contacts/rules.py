"""Rules that a write of contacts must meet besides its schema, and their unique identifiers
(docs/contacts.md#identifiers).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypedDict

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.addresses import all_forms, email_key
from app.contacts.state import WriteResult
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Contact
from app.errors import FieldError, ServiceError, in_catalogue_order
from app.lists.fields import ListSpec


class ElementLocation(TypedDict, total=False):
    """The position of an element in a bulk request."""

    collection: str
    index: int


def element_location(index: int, bulk: bool) -> ElementLocation:
    """The location of an element, empty in the single form (docs/contacts.md#bulk-requests)."""
    return {"collection": "contacts", "index": index} if bulk else {}


def raise_in_order(errors: Sequence[FieldError]) -> None:
    """Raises all errors; the first is the one that is first in the documented tables
    (docs/contacts.md#order-of-errors)."""
    if errors:
        raise ServiceError.of(in_catalogue_order(errors))


def system_errors(contact_list: ListSpec, allow_system: bool) -> list[FieldError]:
    """A system list cannot be changed (docs/contacts.md#system-lists), except by seeding."""
    return [FieldError("list_not_mutable")] if contact_list.system and not allow_system else []


def address_errors(contact_list: ListSpec, contacts: Iterable[Mapping[str, Any]], bulk: bool) -> list[FieldError]:
    """Addresses of a kind that the list has no field for (docs/contacts.md#list-fields). Null writes nothing."""
    missing = [
        kind for kind, has in (("email", contact_list.has_email), ("mobile", contact_list.has_mobile)) if not has
    ]
    return [
        FieldError(f"field_{kind}_not_in_list", kind, **element_location(index, bulk))
        for index, attributes in enumerate(contacts)
        for kind in missing
        if attributes.get(kind) is not None
    ]


@dataclass(frozen=True, slots=True)
class RequestedIdentifier:
    """The identifier that an element of the request gives to its contact."""

    index: int
    identifier: str


def requested_identifiers(results: Iterable[WriteResult]) -> list[RequestedIdentifier]:
    """The identifiers that the writes give to their contacts."""
    return [
        RequestedIdentifier(write.position, state["identifier"])
        for write, state in results
        if state["identifier"] is not None
    ]


def check_identifiers_free(
    session: Session,
    contact_list: ListSpec,
    requested: Sequence[RequestedIdentifier],
    *,
    released: Collection[int] = (),
    bulk: bool,
) -> None:
    """Raises `conflict` for every identifier that another contact has, or that an earlier element of the request gets.

    The contacts in `released` give theirs up in this request: the end state counts (docs/contacts.md#identifiers).
    """
    field = contact_list.identifier
    if not requested or field is None:
        return
    owners = _owners(session, contact_list.id, [element.identifier for element in requested])
    errors, taken = [], []
    earlier: set[str] = set()
    for element in requested:
        holders = owners.get(email_key(element.identifier), ()) if owners else ()
        owner = next((each for each in holders if each not in released), None) if holders else None
        if owner is not None:
            detail = f"{field}: contact {owner} of this list already has it."
            errors.append(FieldError("conflict", field, **element_location(element.index, bulk), detail=detail))
            taken.append({"contact_id": owner})
        elif element.identifier in earlier:
            detail = f"{field}: an earlier element of this request already has it."
            errors.append(FieldError("conflict", field, **element_location(element.index, bulk), detail=detail))
            taken.append({})
        earlier.add(element.identifier)
    if errors:
        raise ServiceError.of(errors, conflict_fields={field: taken[0]})


@contextmanager
def unique_violation_as_conflict(transaction: Transaction, check: Callable[[], None]) -> Iterator[None]:
    """Turns a violation of the unique index into the conflict that `check` raises, once the write is rolled back.

    If `check` no longer finds a conflict, the violation itself is raised, and the transaction runs again.
    """
    try:
        yield
    except IntegrityError:
        transaction.rollback()
        check()
        raise


def _owners(session: Session, list_id: int, identifiers: Iterable[str]) -> dict[str, list[int]]:
    """Identifier -> the ids of the contacts that have it, in whatever form it is stored, the oldest first."""
    stored = all_forms(map(email_key, identifiers))
    statement = select(Contact.identifier, Contact.id).where(
        Contact.list_id == list_id, in_json(Contact.identifier, stored)
    )
    owners: dict[str, list[int]] = {}
    for identifier, contact_id in sorted(session.connection().execute(statement), key=lambda row: int(row.id)):
        owners.setdefault(email_key(str(identifier)), []).append(contact_id)
    return owners
