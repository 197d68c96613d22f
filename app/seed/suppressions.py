"""Seeding the addresses that get no messages: unsubscribers and blocked ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import select

from app.addresses import AddressKind, NormalizedAddress, email_key, is_valid_email, is_valid_mobile
from app.clock import this_second
from app.contacts.blocked import AccountAddress, block_addresses
from app.contacts.events import record_contact_events
from app.contacts.subscriptions import unsubscribe_addresses
from app.db.changes import apply_changes
from app.db.in_json import in_json
from app.db.lookup import find_by_name_or_id
from app.db.models import BlockedAddress, List, Unsubscriber
from app.errors import ServiceError
from app.seed.shape import located
from app.seed.target import Target

AT_ONCE = 1000
DEFAULT_REASON = "seed file"

Described = Mapping[str, Any]


def bring_unsubscribers(target: Target, described: Sequence[Described]) -> None:
    """Unsubscribed addresses, each under a list or account-wide; the flags of contacts that exist follow."""
    wanted: dict[int | None, list[NormalizedAddress]] = {}
    lists: dict[str, int] = {}
    for index, one in enumerate(described):
        with located(f"{target.path}.unsubscribers[{index}]"):
            wanted.setdefault(_list_id(target, one.get("list"), lists), []).append(_address(one))
    for list_id, addresses in wanted.items():
        for start in range(0, len(addresses), AT_ONCE):
            _put_on(target, list_id, dict.fromkeys(addresses[start : start + AT_ONCE]))


def _list_id(target: Target, name: str | None, known: dict[str, int]) -> int | None:
    if name is not None and name not in known:
        known[name] = find_by_name_or_id(target.transaction, List, target.account.id, name, "list").id
    return None if name is None else known[name]


def _put_on(target: Target, list_id: int | None, addresses: Iterable[NormalizedAddress]) -> None:
    statement = select(Unsubscriber.kind, Unsubscriber.address).where(
        Unsubscriber.account_id == target.account.id,
        Unsubscriber.list_id.is_(None) if list_id is None else Unsubscriber.list_id == list_id,
        Unsubscriber.address.in_([address.key for address in addresses]),
    )
    present = {(kind, key) for kind, key in target.transaction.execute(statement)}
    missing = [address for address in addresses if address not in present]
    if missing:
        moment = this_second()
        changed = unsubscribe_addresses(target.transaction, target.account.id, list_id, missing, moment)
        record_contact_events(target.transaction, target.account.id, "updated", changed, moment)
        target.report.created["unsubscriber"] += len(missing)


def bring_blocked(target: Target, described: Sequence[Described]) -> None:
    """Blocked addresses, for the whole account."""
    wanted: dict[NormalizedAddress, Described] = {}
    for index, one in enumerate(described):
        with located(f"{target.path}.blocked[{index}]"):
            wanted[_address(one)] = one
    addresses = list(wanted)
    for start in range(0, len(addresses), AT_ONCE):
        _block(target, {address: wanted[address] for address in addresses[start : start + AT_ONCE]})


def _block(target: Target, wanted: Mapping[NormalizedAddress, Described]) -> None:
    account_id = target.account.id
    statement = select(BlockedAddress).where(
        BlockedAddress.account_id == account_id, in_json(BlockedAddress.address, [address.key for address in wanted])
    )
    present = {
        NormalizedAddress(cast(AddressKind, row.kind), row.address): row
        for row in target.transaction.scalars(statement)
    }
    reasons = {
        AccountAddress(account_id, *address): one.get("reason", DEFAULT_REASON)
        for address, one in wanted.items()
        if address not in present
    }
    touched = block_addresses(target.transaction, reasons)
    record_contact_events(target.transaction, account_id, "updated", touched.get(account_id, ()), this_second())
    for address, one in wanted.items():
        row = present.get(address)
        updated = row is not None and "reason" in one and apply_changes(row, {"reason": one["reason"]})
        target.report.count("blocked address", created=row is None, updated=updated)


def _address(described: Described) -> NormalizedAddress:
    """The entry's address. Raises `ServiceError` for one that is malformed."""
    email, mobile = described.get("email"), described.get("mobile")
    if email is not None and not is_valid_email(email):
        raise ServiceError("invalid_email_address", field="email", detail=f"{email!r} is not an email address")
    if mobile is not None and not is_valid_mobile(mobile):
        detail = f"{mobile!r} is not a mobile number in international format, such as 61411111111"
        raise ServiceError("invalid_mobile_address", field="mobile", detail=detail)
    return NormalizedAddress("mobile", str(mobile)) if email is None else NormalizedAddress("email", email_key(email))
