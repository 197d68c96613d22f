"""A contact as sending and automations need it: one select, whatever their number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import String, bindparam, select
from sqlalchemy.orm import Session

from app.contacts.filters import BLOCKED
from app.db.expressions import in_json, json_array
from app.db.models import Contact
from app.db.prepared import PreparedStatement


@dataclass(frozen=True, slots=True)
class ContactRow:
    """The columns of a contact that the suppression check, wildcards and conditions need."""

    id: int
    account_id: int
    list_id: int
    email: str | None
    mobile: str | None
    subscribed_email: bool
    subscribed_mobile: bool
    is_active: bool
    double_opt_in: bool
    double_opt_in_time: datetime | None
    creation_time: datetime
    last_modified_time: datetime
    values: dict[str, Any]
    blocked_email: bool
    blocked_mobile: bool


LOOKED_UP: dict[str, Any] = {f"blocked_{kind}": blocked.label(f"blocked_{kind}") for kind, blocked in BLOCKED.items()}
"""The values that are looked up, because they are no columns of the contact."""
COLUMNS: list[Any] = [LOOKED_UP.get(field.name, Contact.__table__.c.get(field.name)) for field in fields(ContactRow)]

# Built once: building it takes longer than running it, and every message waits for it.
CONTACTS = PreparedStatement(select(*COLUMNS).where(in_json(Contact.id, bindparam("contact_ids", type_=String))))


def load_contact_rows(session: Session, contact_ids: Iterable[int]) -> dict[int, ContactRow]:
    """The contacts with these ids that exist, whatever their account; no select for no ids."""
    wanted = set(contact_ids)
    if not wanted:
        return {}
    return {row.id: ContactRow(*row) for row in CONTACTS.rows(session, contact_ids=json_array(wanted))}
