"""The messages to an address."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Select, and_, or_, select
from sqlalchemy.orm import Session

from app.addresses import AccountAddress, AddressKind, address_forms
from app.contacts.subscriptions import ADDRESS_COLUMNS
from app.db.in_json import in_json
from app.db.models import Contact, Recipient
from app.recipients.filters import sent_to

TYPES: dict[AddressKind, str] = {"email": "email", "mobile": "sms"}
MOST_CONTACTS = 100


def messages_to(session: Session, address: AccountAddress) -> ColumnElement[bool]:
    """The condition on recipients of the account that their messages went to the address, or will: those named by
    `contact_id` have the address of their contact until a message was sent."""
    contacts = select(Contact.id).where(
        Contact.account_id == address.account_id, ADDRESS_COLUMNS[address.kind].in_(address_forms(address.key))
    )
    ids = session.scalars(contacts.limit(MOST_CONTACTS)).all()
    if not ids:
        return sent_to(address)
    own = Recipient.email if address.kind == "email" else Recipient.mobile
    named = and_(in_json(Recipient.contact_id, ids), own.is_(None), Recipient.type == TYPES[address.kind])
    return or_(sent_to(address), and_(Recipient.contact_id.is_not(None), named))


def newest_messages(session: Session, address: AccountAddress) -> Select[Recipient]:
    """The recipients, the newest first."""
    of_account = Recipient.account_id == address.account_id
    found = select(Recipient).where(of_account, messages_to(session, address))
    return found.order_by(Recipient.creation_time.desc(), Recipient.id.desc())
