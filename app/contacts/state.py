"""What a contact becomes when a client writes to it. Pure; the same for a new contact and for one that exists.

A new contact is an edit of `BLANK`, so that null equals absence there and clears everywhere else (decisions: 5).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from app.contacts.subscriptions import KINDS, Address, Entries, Kind, address_of
from app.lists.fields import ListSpec

State = Mapping[str, Any]
"""The columns of a contact that clients change, directly or not."""

BLANK: State = MappingProxyType(
    {
        "email": None,
        "email_key": None,
        "mobile": None,
        "identifier": None,
        "subscribed_email": True,
        "subscribed_mobile": True,
        "is_active": True,
        "double_opt_in": False,
        "double_opt_in_time": None,
        "values": {},
    }
)
"""A contact of whom nothing is known: the defaults (decisions: 5)."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One write: its place in the request, the contact as it is, and the attributes that the client gave."""

    index: int
    before: State
    attributes: Mapping[str, Any]

    def address(self, kind: Kind) -> Address | None:
        """The address that the contact has afterwards."""
        return address_of(kind, self.attributes[kind] if kind in self.attributes else self.before[kind])

    def moves(self, kind: Kind) -> bool:
        """Whether that is another address than before."""
        return self.address(kind) != address_of(kind, self.before[kind])

    def wish(self, kind: Kind) -> bool | None:
        """Whether the client wants the address subscribed or not; None where it did not say."""
        said: bool | None = self.attributes.get("subscribed", {}).get(kind)
        if said is None and self.before[kind] is None and not self.before[f"subscribed_{kind}"]:
            # A contact without an address was unsubscribed beforehand: the wish holds for its first address.
            return False
        return said


def wishes_of(edits: Sequence[Edit]) -> dict[Address, bool]:
    """Address -> whether it is to be subscribed, for those that the request speaks of; the last word counts."""
    found: dict[Address, bool] = {}
    for edit in edits:
        for kind in KINDS:
            address, wish = edit.address(kind), edit.wish(kind)
            if address is not None and wish is not None:
                found[address] = wish
    return found


def looked_up(edits: Sequence[Edit]) -> Collection[Address]:
    """The addresses whose entries decide about a flag: those that are new to their contact or spoken of."""
    candidates = (
        edit.address(kind) for edit in edits for kind in KINDS if edit.moves(kind) or edit.wish(kind) is not None
    )
    return {address for address in candidates if address is not None}


def after(lst: ListSpec, edit: Edit, entries: Entries, wishes: Mapping[Address, bool], moment: datetime) -> State:
    """The contact as the edit leaves it."""
    before, given = edit.before, edit.attributes
    email, mobile = edit.address("email"), edit.address("mobile")
    opts_in = bool(given.get("double_opt_in")) and not before["double_opt_in"]
    return {
        "email": given.get("email", before["email"]),
        "email_key": email and email.key,
        "mobile": mobile and mobile.key,
        "identifier": _identifier(lst, email, mobile),
        "subscribed_email": _flag(edit, "email", entries, wishes),
        "subscribed_mobile": _flag(edit, "mobile", entries, wishes),
        "is_active": given.get("is_active", before["is_active"]),
        "double_opt_in": before["double_opt_in"] or opts_in,
        "double_opt_in_time": moment if opts_in else before["double_opt_in_time"],
        "values": _values(lst, edit),
    }


def _identifier(lst: ListSpec, email: Address | None, mobile: Address | None) -> str | None:
    """What no other contact of the list may have; None where there is no such thing (decisions: 5)."""
    address = {"email": email, "mobile": mobile, None: None}[lst.identifier]
    return None if address is None or lst.allow_duplicates else address.key


def _flag(edit: Edit, kind: Kind, entries: Entries, wishes: Mapping[Address, bool]) -> bool:
    """Whether the address is subscribed: what the request says of it, else what its entries say where it is new."""
    address = edit.address(kind)
    if address is None:
        # An address that has gone takes its flag with it; its entries stay.
        said = edit.wish(kind)
        return said if said is not None else True
    if address in wishes:
        return wishes[address]
    return not entries.hold(address) if edit.moves(kind) else bool(edit.before[f"subscribed_{kind}"])


def _values(lst: ListSpec, edit: Edit) -> dict[str, Any]:
    """The list field values, without nulls."""
    given = {field.key: edit.attributes[field.key] for field in lst.value_fields if field.key in edit.attributes}
    return {key: value for key, value in {**edit.before["values"], **given}.items() if value is not None}
