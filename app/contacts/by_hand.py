"""One contact created, changed or deleted by hand, on the command line and in the console: a change and its entry in
the audit log, in one transaction (docs/audit.md#actions)."""

from __future__ import annotations

from typing import NamedTuple

from app.addresses import ADDRESS_KINDS, AddressKind, normalize_address
from app.audit.record import record
from app.contacts.acts import act_on_contact
from app.contacts.create import create_contacts
from app.contacts.delete import delete_contacts
from app.contacts.state import ContactAttributes
from app.contacts.update import update_contacts
from app.db.database import Transaction
from app.infrastructure.digests import address_digest
from app.lists.fields import ListSpec


class ContactAddresses(NamedTuple):
    """A contact and its addresses."""

    id: int
    email: str | None
    mobile: str | None


class ContactActs(NamedTuple):
    """What is done to contacts of a list in a transaction. `allow_system` is whether a system list may be changed,
    which the command line does and no key.

    All raise the errors of the use cases of the API: `not_found`, `list_not_mutable` and those of values.
    """

    transaction: Transaction
    secret_key: str
    contact_list: ListSpec
    allow_system: bool

    def create(self, attributes: ContactAttributes) -> int:
        """Creates a contact; returns its id."""
        (contact_id,) = create_contacts(
            self.transaction, self.contact_list, [attributes], allow_system=self.allow_system
        )
        digest = self._digest(attributes.get("email"), attributes.get("mobile"))
        act = act_on_contact("contact.created", self.contact_list, contact_id, address_digest=digest)
        record(self.transaction, act)
        return contact_id

    def update(self, contact: ContactAddresses, attributes: ContactAttributes) -> None:
        """Writes attributes of the contact; null clears. Without a change there is no entry."""
        digest = self._digest(contact.email, contact.mobile)
        act = act_on_contact(
            "contact.updated", self.contact_list, contact.id, address_digest=digest, fields=[*attributes]
        )
        updates = [(contact.id, attributes)]
        update_contacts(self.transaction, self.contact_list, updates, allow_system=self.allow_system, act=act)

    def delete(self, contact: ContactAddresses) -> None:
        """Deletes the contact."""
        digest = self._digest(contact.email, contact.mobile)
        delete_contacts(
            self.transaction,
            self.contact_list,
            [contact.id],
            allow_system=self.allow_system,
            address_digest=digest,
        )

    def _digest(self, email: str | None, mobile: str | None) -> str | None:
        """By which the audit log knows the contact: that of its email, else of its mobile."""
        addresses: dict[AddressKind, str | None] = {"email": email, "mobile": mobile}
        address = next((normalize_address(kind, text) for kind in ADDRESS_KINDS if (text := addresses[kind])), None)
        return None if address is None else address_digest(self.secret_key, address)
