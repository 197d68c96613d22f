"""The domains to which claimed mail goes."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.addresses import domain_of
from app.db.models import Contact
from app.sends.delivery.claim import ClaimedRecipient


def domains_of(session: Session, claimed: Iterable[ClaimedRecipient]) -> dict[int, str]:
    """By the ids of recipients; one select if any is named by its contact, whose address it has."""
    emails = [row for row in claimed if row.type == "email"]
    contact_ids = {row.contact_id for row in emails if row.email is None and row.contact_id is not None}
    contacts = select(Contact.id, Contact.email).where(Contact.id.in_(contact_ids)) if contact_ids else None
    addresses = {row.id: row.email for row in session.execute(contacts)} if contacts is not None else {}
    found = {row.id: row.email or addresses.get(row.contact_id) for row in emails}
    return {recipient_id: domain_of(address) for recipient_id, address in found.items() if address}
