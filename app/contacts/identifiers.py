"""What tells the contacts of a list apart, and the conflict over one that is taken (decisions: 5).

A unique index is the judge. The look before a write finds all conflicts of a request and can name who holds what;
where another request was quicker, the index refuses the write, and the look is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.contacts.rules import place
from app.db.database import Transaction
from app.db.in_json import in_json
from app.db.models import Contact
from app.errors import FieldError, ServiceError
from app.lists.fields import ListSpec


@dataclass(frozen=True, slots=True)
class Claim:
    """An identifier that an element of the request wants to have."""

    index: int
    identifier: str


def check_free(
    session: Session, lst: ListSpec, claims: Sequence[Claim], *, released: Collection[int] = (), bulk: bool
) -> None:
    """Raises `conflict` for every claim to an identifier that is held, or claimed earlier in the same request.

    Contacts in `released` give theirs up in this request: the end state counts (decisions: 11, Contacts).
    """
    field = lst.identifier
    if not claims or field is None:
        return
    holders = _holders(session, lst.id, [claim.identifier for claim in claims])
    errors, taken = [], []
    claimed: set[str] = set()
    for claim in claims:
        holder = holders.get(claim.identifier)
        if holder is not None and holder not in released:
            detail = f"{field}: contact {holder} of this list has it already."
            errors.append(FieldError("conflict", field, **place(claim.index, bulk), detail=detail))
            taken.append({"contact_id": holder})
        elif claim.identifier in claimed:
            detail = f"{field}: an earlier element of this request has it already."
            errors.append(FieldError("conflict", field, **place(claim.index, bulk), detail=detail))
            taken.append({})
        claimed.add(claim.identifier)
    if errors:
        raise ServiceError.of(errors, taken={field: taken[0]})


@contextmanager
def guarded(transaction: Transaction, check: Callable[[], None]) -> Iterator[None]:
    """Turns the unique index's refusal into the conflict that `check` raises, once the failed write is undone.

    Where `check` finds nothing any more, the refusal itself goes on, and the transaction is run again.
    """
    try:
        yield
    except IntegrityError:
        transaction.rollback()
        check()
        raise


def _holders(session: Session, list_id: int, identifiers: Collection[str]) -> dict[str, int]:
    statement = select(Contact.identifier, Contact.id).where(
        Contact.list_id == list_id, in_json(Contact.identifier, identifiers)
    )
    found = session.connection().execute(statement)
    return {identifier: contact_id for identifier, contact_id in found if identifier is not None}
