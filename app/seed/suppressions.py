"""Seeding suppressed addresses: unsubscribers and blocked ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import select

from app.addresses import (
    AccountAddress,
    AddressKind,
    NormalizedAddress,
    all_forms,
    email_key,
    is_valid_email,
    is_valid_mobile,
    normalize_address,
)
from app.clock import this_second
from app.contacts.blocked import Block, block_addresses
from app.contacts.events import record_contact_events
from app.contacts.subscriptions import unsubscribe_addresses
from app.db.expressions import in_json
from app.db.lookup import find_by_name_or_id
from app.db.models import BlockedAddress, List, Unsubscriber
from app.db.models.base import apply_changes
from app.errors import ServiceError
from app.seed.errors import located
from app.seed.report import SeedContext

BATCH_SIZE = 1000
DEFAULT_REASON = "seed file"

Entry = Mapping[str, Any]


def apply_unsubscribers(context: SeedContext, entries: Sequence[Entry]) -> None:
    """Unsubscribed addresses, each under a list or account-wide; the flags of existing contacts change with them."""
    by_list: dict[int | None, list[NormalizedAddress]] = {}
    lists: dict[str, int] = {}
    for index, entry in enumerate(entries):
        with located(f"{context.path}.unsubscribers[{index}]"):
            by_list.setdefault(_list_id(context, entry.get("list"), lists), []).append(_address(entry))
    for list_id, addresses in by_list.items():
        for start in range(0, len(addresses), BATCH_SIZE):
            _unsubscribe(context, list_id, dict.fromkeys(addresses[start : start + BATCH_SIZE]))


def _list_id(context: SeedContext, name: str | None, ids_by_name: dict[str, int]) -> int | None:
    if name is not None and name not in ids_by_name:
        ids_by_name[name] = find_by_name_or_id(context.transaction, List, context.account.id, name, "list").id
    return None if name is None else ids_by_name[name]


def _unsubscribe(context: SeedContext, list_id: int | None, addresses: Iterable[NormalizedAddress]) -> None:
    statement = select(Unsubscriber.kind, Unsubscriber.address).where(
        Unsubscriber.account_id == context.account.id,
        Unsubscriber.list_id.is_(None) if list_id is None else Unsubscriber.list_id == list_id,
        Unsubscriber.address.in_(all_forms(address.key for address in addresses)),
    )
    present = {normalize_address(cast(AddressKind, kind), key) for kind, key in context.transaction.execute(statement)}
    missing = [address for address in addresses if address not in present]
    if missing:
        moment = this_second()
        changed = unsubscribe_addresses(context.transaction, context.account.id, list_id, missing, moment)
        record_contact_events(context.transaction, context.account.id, "updated", changed, moment)
        context.report.created["unsubscriber"] += len(missing)


def apply_blocked(context: SeedContext, entries: Sequence[Entry]) -> None:
    """Blocked addresses, for the whole account."""
    by_address: dict[NormalizedAddress, Entry] = {}
    for index, entry in enumerate(entries):
        with located(f"{context.path}.blocked[{index}]"):
            by_address[_address(entry)] = entry
    addresses = list(by_address)
    for start in range(0, len(addresses), BATCH_SIZE):
        _block(context, {address: by_address[address] for address in addresses[start : start + BATCH_SIZE]})


def _block(context: SeedContext, by_address: Mapping[NormalizedAddress, Entry]) -> None:
    account_id = context.account.id
    statement = select(BlockedAddress).where(
        BlockedAddress.account_id == account_id,
        in_json(BlockedAddress.address, all_forms(address.key for address in by_address)),
    )
    present = {
        normalize_address(cast(AddressKind, row.kind), row.address): row
        for row in context.transaction.scalars(statement)
    }
    blocks = {
        AccountAddress(account_id, *address): Block(entry.get("reason", DEFAULT_REASON))
        for address, entry in by_address.items()
        if address not in present
    }
    changed = block_addresses(context.transaction, blocks)
    record_contact_events(context.transaction, account_id, "updated", changed.get(account_id, ()), this_second())
    for address, entry in by_address.items():
        row = present.get(address)
        updated = row is not None and "reason" in entry and apply_changes(row, {"reason": entry["reason"]})
        context.report.count("blocked address", created=row is None, updated=updated)


def _address(entry: Entry) -> NormalizedAddress:
    """The entry's address. Raises `ServiceError` if it is malformed."""
    email, mobile = entry.get("email"), entry.get("mobile")
    if email is not None and not is_valid_email(email):
        raise ServiceError("invalid_email_address", field="email", detail=f"{email!r} is not an email address")
    if mobile is not None and not is_valid_mobile(mobile):
        detail = f"{mobile!r} is not a mobile number in international format, such as 61411111111"
        raise ServiceError("invalid_mobile_address", field="mobile", detail=detail)
    return NormalizedAddress("mobile", str(mobile)) if email is None else NormalizedAddress("email", email_key(email))
