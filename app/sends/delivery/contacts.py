"""The contacts of claimed recipients, as delivery needs them: in one select, whatever their number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from sqlalchemy import String, bindparam, select
from sqlalchemy.orm import Session

from app.contacts.read import BLOCKED
from app.db.in_json import in_json, json_array
from app.db.models import Contact
from app.db.prepared import Prepared
from app.sends.delivery.claim import ClaimedRecipient
from app.sends.delivery.suppression import ContactState

ELSEWHERE: dict[str, Any] = {f"blocked_{kind}": blocked.label(f"blocked_{kind}") for kind, blocked in BLOCKED.items()}
"""What is looked up, because it is no column of the contact."""
COLUMNS: list[Any] = [ELSEWHERE.get(one.name, Contact.__table__.c.get(one.name)) for one in fields(ContactState)]

# Built once: to build it takes longer than to run it, and every message waits for it.
CONTACTS = Prepared(select(*COLUMNS).where(in_json(Contact.id, bindparam("contact_ids", type_=String))))


def contacts_of(session: Session, claimed: Iterable[ClaimedRecipient]) -> dict[int, ContactState]:
    """The contact of each recipient that still has one, by recipient id; no select where none is named."""
    wanted = {one.contact_id for one in claimed if one.contact_id is not None}
    if not wanted:
        return {}
    found = {row.id: ContactState(*row) for row in CONTACTS.rows(session, contact_ids=json_array(wanted))}
    paired = ((one, found.get(one.contact_id or 0)) for one in claimed)
    return {one.id: contact for one, contact in paired if contact and _is_theirs(one, contact)}


def _is_theirs(recipient: ClaimedRecipient, contact: ContactState) -> bool:
    return contact.account_id == recipient.account_id and contact.list_id == recipient.list_id
