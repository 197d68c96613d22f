"""Adding and removing suppressions in the console, as the command line does (docs/console.md#suppressions)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from app.addresses import (
    AddressKind,
    NormalizedAddress,
    is_valid_email,
    is_valid_mobile,
    mobile_as_stored,
    normalize_address,
)
from app.console.suppressions import Suppression
from app.contacts.blocked import BLOCKED, STATES
from app.contacts.suppression_acts import add_blocked, add_unsubscribed, remove_blocked, remove_unsubscribed
from app.db.database import Transaction
from app.db.lookup import find_by_name_or_id
from app.db.models import List
from app.errors import ServiceError

LONGEST_REASON = 255
BY_HAND = "blocked by hand"


@dataclass(frozen=True, slots=True)
class NewSuppression:
    """What the form says: an address, a state, a list by its name or id, and the reason of a block. The last two may
    be empty."""

    address: str
    state: str
    list: str = ""
    reason: str = ""


def address_of(text: str) -> NormalizedAddress:
    """The address that somebody has written, normalized. Raises `invalid_email_address`, or `invalid_mobile_address`,
    for a text that is none."""
    if "@" in text:
        if not is_valid_email(text):
            raise ServiceError("invalid_email_address", field="email", detail=f"{text!r} is not an email address.")
        return normalize_address("email", text)
    number = mobile_as_stored(text)
    if not is_valid_mobile(number):
        detail = f"{text!r} is neither an email address nor a mobile number such as 61411111111."
        raise ServiceError("invalid_mobile_address", field="mobile", detail=detail)
    return normalize_address("mobile", number)


def checked_state(text: str) -> str:
    """The state. Raises `invalid_string` for any other text."""
    if text not in STATES:
        raise ServiceError("invalid_string", field="state", detail=f"{text!r} is none of {', '.join(STATES)}.")
    return text


def checked_reason(text: str) -> str:
    """The reason of a block; a general one for an empty text. Raises `too_long`."""
    if len(text) > LONGEST_REASON:
        raise ServiceError("too_long", field="reason", detail=f"A reason has at most {LONGEST_REASON} characters.")
    return text or BY_HAND


def add_suppression(transaction: Transaction, secret_key: str, account_id: int, new: NewSuppression) -> None:
    """Blocks the address, or unsubscribes it from the list, or account-wide without one. Raises the errors of the
    form."""
    address, state = address_of(new.address), checked_state(new.state)
    if state == BLOCKED:
        if new.list:
            raise ServiceError("unexpected_field", field="list", detail="An address is blocked for all lists.")
        add_blocked(transaction, secret_key, account_id, address, checked_reason(new.reason))
        return
    list_id = find_by_name_or_id(transaction, List, account_id, new.list, "list").id if new.list else None
    add_unsubscribed(transaction, secret_key, account_id, address, list_id)


def remove_suppression(transaction: Transaction, secret_key: str, account_id: int, one: Suppression) -> None:
    """Unblocks the address, or resubscribes it: to the list of the entry, and account-wide. Raises `conflict` for a
    forgotten one."""
    if one.address is None:
        raise ServiceError("conflict", detail="The address was forgotten; add it anew to change what is kept of it.")
    address = normalize_address(cast("AddressKind", one.kind), one.address)
    if one.state == BLOCKED:
        remove_blocked(transaction, secret_key, account_id, address)
    else:
        remove_unsubscribed(transaction, secret_key, account_id, address, one.stored_list_id)
