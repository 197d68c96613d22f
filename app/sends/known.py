"""What wildcards know of a recipient without being told by the request: the attributes of the contact. Pure.

All that the API shows of a contact can be said in a message (decisions: 12). A list field with the key of an attribute
hides it, also for a contact that has no value in that field.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from app.clock import timestamp
from app.sends.skip import ContactState

GIVES_WAY = {"contact_id": 1, "subscribed_email": 2, "subscribed_mobile": 4, "blocked_email": 8, "blocked_mobile": 16}
"""Attributes whose names a list field may have as its key, each with a bit; those of all others are reserved."""


def attributes_of(contact: ContactState, zone: ZoneInfo | None, shadowing: int | None) -> Mapping[str, object]:
    """The attributes and list fields of the contact, times in the zone, with `Z` where it is None. `shadowing` has
    the bits of attributes that list fields hide."""
    attributes = {
        "id": contact.id,
        "contact_id": contact.id,
        "list_id": contact.list_id,
        "creation_time": timestamp(contact.creation_time, zone),
        "last_modified_time": timestamp(contact.last_modified_time, zone),
        "email": contact.email,
        "mobile": contact.mobile,
        "subscribed_email": contact.subscribed_email,
        "subscribed_mobile": contact.subscribed_mobile,
        "blocked_email": contact.blocked_email,
        "blocked_mobile": contact.blocked_mobile,
        "is_active": contact.is_active,
        "double_opt_in": contact.double_opt_in,
        "double_opt_in_time": _shown(contact.double_opt_in_time, zone),
    }
    if shadowing:
        attributes = {name: one for name, one in attributes.items() if not GIVES_WAY.get(name, 0) & shadowing}
    return {**attributes, **contact.values}


def _shown(moment: datetime | None, zone: ZoneInfo | None) -> str | None:
    return None if moment is None else timestamp(moment, zone)
