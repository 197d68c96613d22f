"""Suppressions of forgotten addresses when an address comes back (docs/privacy.md#what-is-kept).

They are kept under digests. A write that gives the address to a contact makes them those of the address again, so that
whatever compares addresses sees them: the contact is unsubscribed or blocked as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import case, delete, exists, update
from sqlalchemy.orm import aliased

from app.addresses import NormalizedAddress
from app.contacts.unsubscriber_entries import UnsubscriberEntries
from app.db.address_forms import find_digests
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import BlockedAddress, Unsubscriber

_UNSYNCHRONIZED = {"synchronize_session": False}


def restore_found(
    transaction: Transaction,
    account_id: int,
    entries: UnsubscriberEntries,
    addresses: Collection[NormalizedAddress | None],
) -> None:
    """The suppressions of those of the addresses whose digests were found among the entries."""
    written = {digest: address for digest, address in entries.forgotten.items() if address in addresses}
    if written:
        _restore(transaction, account_id, written)


def restore_address(transaction: Transaction, account_id: int, address: NormalizedAddress) -> None:
    """The suppressions of an address that somebody names who is about to change them."""
    restore_addresses(transaction, account_id, [address])


def restore_addresses(transaction: Transaction, account_id: int, addresses: Collection[NormalizedAddress]) -> None:
    """Like `restore_address`, of several."""
    if digests := find_digests(transaction, addresses):
        _restore(transaction, account_id, digests)


def _restore(transaction: Transaction, account_id: int, digests: Mapping[str, NormalizedAddress]) -> None:
    """Four statements for each form of an address (`app.addresses.address_forms`), whatever the number of addresses:
    an address may have been forgotten in several forms."""
    rounds: list[dict[str, NormalizedAddress]] = []
    seen = Counter[NormalizedAddress]()
    for digest, address in digests.items():
        if seen[address] == len(rounds):
            rounds.append({})
        rounds[seen[address]][digest] = address
        seen[address] += 1
    for digests_of_round in rounds:
        _restore_entries(transaction, Unsubscriber, account_id, digests_of_round, ("kind", "list_id"))
        _restore_entries(transaction, BlockedAddress, account_id, digests_of_round, ("kind",))


def _restore_entries(
    transaction: Transaction,
    model: type[Unsubscriber] | type[BlockedAddress],
    account_id: int,
    digests: Mapping[str, NormalizedAddress],
    key: Collection[str],
) -> None:
    """An address that was suppressed anew meanwhile has an entry of its own, and needs no other."""
    has_digest = model.account_id == account_id, in_json(model.address, list(digests))
    address = case({digest: original.key for digest, original in digests.items()}, value=model.address)
    other: Any = aliased(model)
    same = (getattr(other, name).is_not_distinct_from(getattr(model, name)) for name in ("account_id", *key))
    conditions = other.address == address, *same
    restored = update(model).where(*has_digest, ~exists().where(*conditions)).values(address=address)
    transaction.execute(restored, execution_options=_UNSYNCHRONIZED)
    transaction.execute(delete(model).where(*has_digest), execution_options=_UNSYNCHRONIZED)
