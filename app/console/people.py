"""What is held about a person, handing it out, and forgetting it, as the command line does
(docs/console-contents.md#forgetting-a-person)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.addresses import NormalizedAddress
from app.db.models import Account
from app.errors import ServiceError
from app.privacy.export import document, export_person
from app.privacy.forget import ForgetReport, forget, held
from app.privacy.person import with_test_account
from app.privacy.places import PLACES
from app.services import Services
from app.suppressions.acts import address_of

PATH = "/console/people"
WAIT_SECONDS = 5.0
"""Seconds for which messages that are being handed over are waited for; who is left waiting repeats it."""


@dataclass(frozen=True, slots=True)
class PersonAddress:
    """An address in an account and its test account, as the commands of the same name mean it."""

    account: Account
    account_ids: Sequence[int]
    address: NormalizedAddress

    @property
    def text(self) -> str:
        """The address."""
        return self.address.key


def person_address(session: Session, account: Account, text: str) -> PersonAddress:
    """The person with the address that somebody has written. Raises `invalid_email_address` or
    `invalid_mobile_address`."""
    return PersonAddress(account, with_test_account(session, account.id), address_of(text))


def held_of(services: Services, person: PersonAddress) -> Mapping[str, int]:
    """What is held, in words, with how much there is of it. Nothing is changed."""
    counts = held(services, person.account_ids, person.address.kind, person.address.key)
    return {place.holds: counts[place.name] for place in PLACES if place.name in counts}


def check_confirmation(person: PersonAddress, typed: str) -> None:
    """Raises `invalid_string` unless the address was typed again."""
    try:
        is_same = address_of(typed) == person.address
    except ServiceError:
        is_same = False
    if not is_same:
        detail = f"Nothing was removed. Enter the address, {person.text}, to confirm."
        raise ServiceError("invalid_string", detail=detail)


def forget_person(services: Services, person: PersonAddress) -> ForgetReport:
    """Removes the person; returns what was removed."""
    return forget(services, person.account_ids, person.address.kind, person.address.key, wait=WAIT_SECONDS)


def person_document(services: Services, person: PersonAddress) -> Iterator[str] | None:
    """All that is held as a JSON document, in parts; None if nothing is."""
    kind, key = person.address
    sections = export_person(services, person.account_ids, kind, key)
    return None if sections is None else document(kind, key, sections)
