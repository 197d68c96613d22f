"""Unique identifiers of the contacts of a list, and the conflict if one is taken (docs/contacts.md#identifiers).

A unique index decides. The check before a write finds all conflicts of a request and can name the contact that has each
identifier; if another request was quicker, the index refuses the write, and the check is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.addresses import all_forms, email_key
from app.contacts.rules import element_location
from app.contacts.state import WriteResult
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Contact
from app.errors import FieldError, ServiceError
from app.lists.fields import ListSpec


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
    owners = _owners(session, contact_list.id, [one.identifier for one in requested])
    errors, taken = [], []
    earlier: set[str] = set()
    for one in requested:
        holders = owners.get(email_key(one.identifier), ()) if owners else ()
        owner = next((each for each in holders if each not in released), None) if holders else None
        if owner is not None:
            detail = f"{field}: contact {owner} of this list has it already."
            errors.append(FieldError("conflict", field, **element_location(one.index, bulk), detail=detail))
            taken.append({"contact_id": owner})
        elif one.identifier in earlier:
            detail = f"{field}: an earlier element of this request has it already."
            errors.append(FieldError("conflict", field, **element_location(one.index, bulk), detail=detail))
            taken.append({})
        earlier.add(one.identifier)
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
