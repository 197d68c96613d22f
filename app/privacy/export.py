"""Handing out what is held about a person, page by page (docs/privacy.md#handing-out)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import select

from app.addresses import AddressKind
from app.db.models import Account
from app.privacy.person import find_person
from app.privacy.place import Shown
from app.privacy.places import PLACES
from app.services import Services

Found = tuple[str, str, list[Shown]]
"""The name of an account, the name of a place, and rows that are there."""


def export_person(services: Services, account_ids: Sequence[int], kind: AddressKind, address: str) -> Iterator[Found]:
    """Everything, account by account and in the order of the places; none without rows. Nobody knows when whoever reads
    it comes for the next page, so no connection is kept for that time."""
    for account_id in account_ids:
        with services.database.read() as session:
            name = session.scalars(select(Account.name).where(Account.id == account_id)).one()
            person = find_person(session, account_id, kind, address)
            for place in PLACES:
                for page in place.read(services, session, person):
                    session.close()  # its next statement takes another connection
                    yield name, place.name, page
