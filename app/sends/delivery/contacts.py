"""Loading the contacts of claimed recipients: one select, whatever their number."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy.orm import Session

from app.contacts.row import ContactRow, load_contact_rows
from app.sends.delivery.claim import ClaimedRecipient


def load_contacts(session: Session, claimed: Iterable[ClaimedRecipient]) -> dict[int, ContactRow]:
    """The contact of each recipient that still has one, by recipient id; no select if none refers to a contact."""
    by_id = load_contact_rows(
        session, (recipient.contact_id for recipient in claimed if recipient.contact_id is not None)
    )
    pairs = ((recipient, by_id.get(recipient.contact_id or 0)) for recipient in claimed)
    return {recipient.id: contact for recipient, contact in pairs if contact and _is_in_its_list(recipient, contact)}


def _is_in_its_list(recipient: ClaimedRecipient, contact: ContactRow) -> bool:
    return contact.account_id == recipient.account_id and contact.list_id == recipient.list_id
