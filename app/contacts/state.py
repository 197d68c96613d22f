"""The state of a contact after a client's write. Pure; the same for a new contact and for an existing one.

A new contact is a write to `BLANK_CONTACT`, so that null is the same as absence there and clears everywhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from app.addresses import ADDRESS_KINDS, AddressKind, NormalizedAddress, normalize_address
from app.contacts.unsubscriber_entries import UnsubscriberEntries
from app.lists.fields import ListSpec

ContactAttributes = Mapping[str, Any]
"""What a client writes to a contact, checked by type: `email`, `mobile`, `subscribed` (`{"email": bool, "mobile":
bool}`), `is_active`, `double_opt_in` and list field keys."""

ContactState = Mapping[str, Any]
"""The columns of a contact that clients change, directly or not."""

BLANK_CONTACT: ContactState = MappingProxyType(
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
"""A contact without attributes: the defaults."""

NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})
NORMALIZED_COLUMNS: dict[AddressKind, str] = {"email": "email_key", "mobile": "mobile"}
"""The columns of a state that hold addresses in their normalized form."""


class ContactWrite(NamedTuple):
    """One write: its position in the request, the contact's state before it, and the attributes to write. A tuple,
    because a request has a thousand of them."""

    position: int
    before: ContactState
    attributes: ContactAttributes
    addresses: Mapping[AddressKind, NormalizedAddress | None]
    """The contact's addresses after the write, normalized once for everything that follows."""
    changed: Collection[AddressKind]
    """The kinds of address that the write changes."""
    requested: Mapping[AddressKind, bool | None]
    """Whether the client wants the address subscribed or not; None if the request does not say."""

    @classmethod
    def of(cls, position: int, before: ContactState, attributes: ContactAttributes) -> ContactWrite:
        """The write of these attributes, with its addresses normalized."""
        addresses: dict[AddressKind, NormalizedAddress | None] = {}
        requested: dict[AddressKind, bool | None] = {}
        changed: list[AddressKind] = []
        subscribed = attributes.get("subscribed", NO_ATTRIBUTES)
        for kind in ADDRESS_KINDS:
            key = before[NORMALIZED_COLUMNS[kind]]  # perhaps in the normalized form of a release before
            old = None if key is None else normalize_address(kind, key)
            text = attributes.get(kind, key)
            addresses[kind] = new = None if text is None else normalize_address(kind, text)
            if new != old:
                changed.append(kind)
            requested[kind] = subscribed.get(kind)
            if requested[kind] is None and before[kind] is None and not before[f"subscribed_{kind}"]:
                # The contact was unsubscribed while it had no address: that applies to its first address.
                requested[kind] = False
        return cls(position, before, attributes, addresses, changed, requested)


WriteResult = tuple[ContactWrite, ContactState]
"""A write, and the contact's state after it."""


def requested_subscriptions(writes: Sequence[ContactWrite]) -> dict[NormalizedAddress, bool]:
    """Address -> whether to subscribe it, for the addresses that the request names; the last one counts."""
    subscriptions: dict[NormalizedAddress, bool] = {}
    for write in writes:
        for kind, address in write.addresses.items():
            requested = write.requested[kind]
            if address is not None and requested is not None:
                subscriptions[address] = requested
    return subscriptions


def addresses_to_look_up(writes: Sequence[ContactWrite]) -> Collection[NormalizedAddress]:
    """The addresses whose unsubscriber entries determine a flag: new to their contact, or set by the request."""
    return {
        address
        for write in writes
        for kind, address in write.addresses.items()
        if address is not None
        if kind in write.changed or write.requested[kind] is not None
    }


def state_after(
    contact_list: ListSpec,
    write: ContactWrite,
    entries: UnsubscriberEntries,
    subscriptions: Mapping[NormalizedAddress, bool],
    moment: datetime,
) -> ContactState:
    """The contact's state after the write."""
    before, attributes = write.before, write.attributes
    mobile = write.addresses["mobile"]
    opts_in = bool(attributes.get("double_opt_in")) and not before["double_opt_in"]
    return {
        "email": attributes.get("email", before["email"]),
        "email_key": _stored_key(write),
        "mobile": mobile and mobile.key,
        "identifier": _identifier(entries.unique_kind, write),
        "subscribed_email": _is_subscribed(write, "email", entries, subscriptions),
        "subscribed_mobile": _is_subscribed(write, "mobile", entries, subscriptions),
        "is_active": attributes.get("is_active", before["is_active"]),
        "double_opt_in": before["double_opt_in"] or opts_in,
        "double_opt_in_time": moment if opts_in else before["double_opt_in_time"],
        "values": _values(contact_list, write),
    }


def _stored_key(write: ContactWrite) -> str | None:
    """The email as it is compared. A write that leaves the address as it is leaves that, too: only maintenance knows
    whether the address is free in its new form (app/contacts/same_address.py)."""
    email = write.addresses["email"]
    if "email" not in write.changed:
        key: str | None = write.before["email_key"]
        return key
    return email and email.key


def _identifier(unique_kind: AddressKind | None, write: ContactWrite) -> str | None:
    """The value that is unique among the list's contacts; None if the list or the contact has none. A write that leaves
    the address as it is leaves that, too: it may be in the form of a release before (docs/contacts.md#one-address)."""
    before: str | None = write.before["identifier"]
    if not write.changed:
        return before
    address = None if unique_kind is None else write.addresses[unique_kind]
    if unique_kind is None or address is None:
        return None
    return address.key if unique_kind in write.changed else before


def _is_subscribed(
    write: ContactWrite,
    kind: AddressKind,
    entries: UnsubscriberEntries,
    subscriptions: Mapping[NormalizedAddress, bool],
) -> bool:
    """The flag of an address: as requested; else, for a new address, according to its unsubscriber entries; else
    unchanged."""
    address = write.addresses[kind]
    if address is None:
        # The flag is cleared with the removed address; the address's entries are kept.
        requested = write.requested[kind]
        return requested if requested is not None else True
    if address in subscriptions:
        return subscriptions[address]
    if kind in write.changed:
        return not entries.is_unsubscribed(address)
    return bool(write.before[f"subscribed_{kind}"])


def _values(contact_list: ListSpec, write: ContactWrite) -> dict[str, Any]:
    """The list field values, without nulls."""
    keys, before = contact_list.value_keys, write.before["values"]
    values = {**before, **{key: value for key, value in write.attributes.items() if key in keys}}
    if None not in values.values():
        return values
    return {key: value for key, value in values.items() if value is not None}
