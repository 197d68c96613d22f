"""A contact as sending and automations need it, and the wildcard values that come from it, in messages and in the
conditions of automations: one select, whatever their number.

Every attribute that the API shows of a contact is available as a wildcard (docs/personalisation.md#values). A list
field whose key is the name of an attribute hides that attribute, also for a contact without a value in the field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import String, bindparam, select
from sqlalchemy.orm import Session

from app.clock import timestamp
from app.contacts.filters import IS_BLOCKED
from app.db.expressions import in_json, json_array
from app.db.models import Contact
from app.db.prepared import PreparedStatement
from app.ids import shown_id
from app.lists.fields import ListSpec


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


LOOKED_UP_COLUMNS: dict[str, Any] = {
    f"blocked_{kind}": blocked.label(f"blocked_{kind}") for kind, blocked in IS_BLOCKED.items()
}
"""The values that are looked up, because they are no columns of the contact."""
COLUMNS: list[Any] = [
    LOOKED_UP_COLUMNS.get(field.name, Contact.__table__.c.get(field.name)) for field in fields(ContactRow)
]

# Built once: building it takes longer than running it, and every message waits for it.
SELECT_CONTACTS = PreparedStatement(select(*COLUMNS).where(in_json(Contact.id, bindparam("contact_ids", type_=String))))


def load_contact_rows(session: Session, contact_ids: Iterable[int]) -> dict[int, ContactRow]:
    """The contacts with these ids that exist, whatever their account; no select for no ids."""
    ids = set(contact_ids)
    if not ids:
        return {}
    return {row.id: ContactRow(*row) for row in SELECT_CONTACTS.rows(session, contact_ids=json_array(ids))}


HIDEABLE_ATTRIBUTES = {
    "contact_id": 1,
    "subscribed_email": 2,
    "subscribed_mobile": 4,
    "blocked_email": 8,
    "blocked_mobile": 16,
}
"""Attributes whose names a list field may have as its key, each with a bit; all other names are reserved."""


def hidden_by(contact_list: ListSpec) -> int:
    """The bits of the attributes that fields of the list hide."""
    return sum(
        HIDEABLE_ATTRIBUTES.get(key, 0) for key in {field.key for field in contact_list.fields if not field.is_address}
    )


def _formatted(moment: datetime | None, zone: ZoneInfo | None) -> str | None:
    return None if moment is None else timestamp(moment, zone)


ATTRIBUTES: dict[str, Callable[[ContactRow, ZoneInfo | None], object]] = {
    "id": lambda contact, _: contact.id,
    "contact_id": lambda contact, _: contact.id,
    "list_id": lambda contact, _: shown_id(contact.list_id),
    "creation_time": lambda contact, zone: _formatted(contact.creation_time, zone),
    "last_modified_time": lambda contact, zone: _formatted(contact.last_modified_time, zone),
    "email": lambda contact, _: contact.email,
    "mobile": lambda contact, _: contact.mobile,
    "subscribed_email": lambda contact, _: contact.subscribed_email,
    "subscribed_mobile": lambda contact, _: contact.subscribed_mobile,
    "blocked_email": lambda contact, _: contact.blocked_email,
    "blocked_mobile": lambda contact, _: contact.blocked_mobile,
    "is_active": lambda contact, _: contact.is_active,
    "double_opt_in": lambda contact, _: contact.double_opt_in,
    "double_opt_in_time": lambda contact, zone: _formatted(contact.double_opt_in_time, zone),
}


class ContactValues(Mapping[str, object]):
    """The list fields and attributes of a contact, each computed on access. Times are in the zone, or end in `Z` if it
    is None; `hidden` has the bits of the attributes that list fields hide."""

    __slots__ = ("_contact", "_hidden", "_zone")

    def __init__(self, contact: ContactRow, zone: ZoneInfo | None, hidden: int | None) -> None:
        self._contact = contact
        self._zone = zone
        self._hidden = hidden or 0

    def __getitem__(self, name: str) -> object:
        values = self._contact.values
        if name in values:
            return values[name]
        if HIDEABLE_ATTRIBUTES.get(name, 0) & self._hidden:
            raise KeyError(name)
        return ATTRIBUTES[name](self._contact, self._zone)

    def __iter__(self) -> Iterator[str]:
        hidden = {name for name, bit in HIDEABLE_ATTRIBUTES.items() if bit & self._hidden}
        return iter({**self._contact.values, **dict.fromkeys(ATTRIBUTES.keys() - hidden)})

    def __len__(self) -> int:
        return sum(1 for _ in self)
