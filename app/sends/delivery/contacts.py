"""Loading the contacts of claimed recipients: one select, whatever their number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from sqlalchemy import String, bindparam, select
from sqlalchemy.orm import Session

from app.contacts.filters import BLOCKED
from app.db.in_json import in_json, json_array
from app.db.models import Contact
from app.db.prepared import PreparedStatement
from app.sends.delivery.claim import ClaimedRecipient
from app.sends.delivery.suppression import RecipientContact

LOOKED_UP: dict[str, Any] = {f"blocked_{kind}": blocked.label(f"blocked_{kind}") for kind, blocked in BLOCKED.items()}
"""The values that are looked up, because they are not columns of the contact."""
COLUMNS: list[Any] = [
    LOOKED_UP.get(field.name, Contact.__table__.c.get(field.name)) for field in fields(RecipientContact)
]

# Built once: building it takes longer than running it, and every message waits for it.
CONTACTS = PreparedStatement(select(*COLUMNS).where(in_json(Contact.id, bindparam("contact_ids", type_=String))))


def load_contacts(session: Session, claimed: Iterable[ClaimedRecipient]) -> dict[int, RecipientContact]:
    """The contact of each recipient that still has one, by recipient id; no select if none refers to a contact."""
    contact_ids = {recipient.contact_id for recipient in claimed if recipient.contact_id is not None}
    if not contact_ids:
        return {}
    rows = CONTACTS.rows(session, contact_ids=json_array(contact_ids))
    by_id = {row.id: RecipientContact(*row) for row in rows}
    pairs = ((recipient, by_id.get(recipient.contact_id or 0)) for recipient in claimed)
    return {recipient.id: contact for recipient, contact in pairs if contact and _is_in_its_list(recipient, contact)}


def _is_in_its_list(recipient: ClaimedRecipient, contact: RecipientContact) -> bool:
    return contact.account_id == recipient.account_id and contact.list_id == recipient.list_id
