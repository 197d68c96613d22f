"""A person in one account: an address, and the contacts that have it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session

from app.addresses import (
    AccountAddress,
    AddressKind,
    NormalizedAddress,
    address_forms,
    all_forms,
    email_key,
    normalize_address,
    written_forms,
)
from app.contacts.subscriptions import ADDRESS_COLUMNS
from app.db.address_forms import is_non_ascii
from app.db.expressions import in_json
from app.db.models import Account, Contact, Recipient, Send
from app.db.pages import matching_pages
from app.recipients.filters import sent_to
from app.services import Services

PLAIN_PART = re.compile(r"[a-z0-9@._+-]+")
"""A part of an address that stands the same in every text: nothing in it is escaped in JSON."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who is meant in one account. Contacts that have the address now belong to the person, with all that was sent to
    them, whatever the address was then."""

    account_id: int
    kind: AddressKind
    key: str
    contact_ids: tuple[int, ...] = ()
    other_addresses: tuple[str, ...] = ()
    """Further addresses of these contacts, normalized."""
    spellings: tuple[str, ...] = ()
    """Further forms of the address that messages have, in the lower case of the database."""
    after_event: int = 0
    """Events up to this id have been looked through already."""

    @property
    def address(self) -> NormalizedAddress:
        return NormalizedAddress(self.kind, self.key)

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms in which the address is stored, or stands in texts."""
        return *address_forms(self.key), *self.spellings

    @property
    def own_words(self) -> tuple[str, ...]:
        """The longest plain part of each form of the address: no text without one of them has the address."""
        return _words(self.forms)

    @property
    def words(self) -> tuple[str, ...]:
        """The longest plain part of each form of all addresses of the person."""
        return _words((*all_forms((self.key, *self.other_addresses)), *self.spellings))

    def includes(self, other: Person) -> bool:
        """Whether all that names the other one names this one, too."""
        this_address, other_address = ((person.account_id, person.kind, person.key) for person in (self, other))
        addresses = {self.key, *self.other_addresses}
        return (
            this_address == other_address
            and addresses.issuperset(other.other_addresses)
            and {*self.contact_ids} >= {*other.contact_ids}
            and {*self.spellings} >= {*other.spellings}
        )

    def is_named_in(self, text: str | None) -> bool:
        """Whether the text has the address itself, also escaped as in JSON."""
        return text is not None and any(
            form in (lower := text.lower()) or _in_json(form) in lower for form in map(str.lower, self.forms)
        )

    @property
    def received(self) -> Sequence[ColumnElement[bool]]:
        """The conditions on recipients of the account that are the person, each answered by an index."""
        has_address = sent_to(AccountAddress(self.account_id, self.kind, self.key), self.spellings)
        if not self.contact_ids:
            return [has_address]
        return [has_address, Recipient.contact_id.is_not(None) & in_json(Recipient.contact_id, self.contact_ids)]


def _words(forms: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(max(PLAIN_PART.findall(form), key=len) for form in forms))


def _in_json(form: str) -> str:
    return json.dumps(form, ensure_ascii=False)[1:-1]


class PersonSearch:
    """The search for the person with an address in accounts. How messages there spell an international address is read
    once, which takes a pass over all of them."""

    def __init__(self, services: Services, account_ids: Sequence[int], kind: AddressKind, address: str) -> None:
        self._services = services
        self.account_ids = account_ids
        self.address = normalize_address(kind, address)
        self._typed_forms = written_forms(address)
        self._spellings: dict[int, tuple[str, ...]] = {}

    def people(self) -> Iterator[tuple[Session, Person]]:
        """The person in each of the accounts, whether anything is held or not, with a session to look for more."""
        for account_id in self.account_ids:
            with self._services.database.read() as session:
                if account_id not in self._spellings:
                    self._read_spellings(session, account_id)
                yield session, _find_person(session, account_id, self.address, self._spellings[account_id])

    def finds_more_spellings(self) -> bool:
        """Reads again how messages spell the address; returns whether any that have come meanwhile do so otherwise than
        those before."""
        before = dict(self._spellings)
        for account_id in before:
            with self._services.database.read() as session:
                self._read_spellings(session, account_id)
        return self._spellings != before

    def _read_spellings(self, session: Session, account_id: int) -> None:
        """Adds them to those before, which nobody may have any more."""
        forms, before = address_forms(self.address.key), self._spellings.get(account_id, self._typed_forms)
        spellings = {*before, *_find_spellings(session, account_id, self.address.key)}
        self._spellings[account_id] = tuple(sorted(spellings.difference(forms)))


def _find_person(session: Session, account_id: int, address: NormalizedAddress, spellings: tuple[str, ...]) -> Person:
    kind, key = address
    statement = select(Contact.id, Contact.email_key, Contact.mobile).where(
        Contact.account_id == account_id, ADDRESS_COLUMNS[kind].in_(address_forms(key))
    )
    contacts = session.execute(statement.order_by(Contact.id)).all()
    others = {
        email_key(contact_address)
        for _, *addresses in contacts
        for contact_address in addresses
        if contact_address is not None
    } - {key}
    return Person(account_id, kind, key, tuple(row.id for row in contacts), tuple(sorted(others)), spellings)


def _find_spellings(session: Session, account_id: int, key: str) -> set[str]:
    """The forms of an international address in messages that normalizing it does not tell, such as those with capitals,
    of which a database may know those of ASCII alone: all other international addresses there are read."""
    if len(address_forms(key)) == 1:
        return set()
    spellings = set[str]()
    for column in (Recipient.email, Send.reply_to, Send.bcc_address):
        stored = func.lower(column)
        scope = and_(column.class_.account_id == account_id, column.is_not(None))
        statement, others = select(stored).distinct(), is_non_ascii(session, column.key)
        for rows in matching_pages(session, statement, scope, (stored,), others):
            spellings.update(text for (text,) in rows if email_key(text) == key)
    return spellings


def with_test_account(session: Session, account_id: int) -> list[int]:
    """The account, and its test account if there is one: what test keys have captured is in that."""
    either = or_(Account.id == account_id, Account.test_of == account_id)
    return list(session.scalars(select(Account.id).where(either).order_by(Account.id)))
