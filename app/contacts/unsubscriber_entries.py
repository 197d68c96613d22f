"""Looking up what the account's unsubscribers list says about addresses (docs/contacts.md#subscriptions), and, in the
same statement, of which kind no two contacts of their list may share one (docs/contacts.md#identifiers)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Select,
    and_,
    bindparam,
    case,
    false,
    func,
    literal,
    null,
    or_,
    select,
    union_all,
)
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, AddressKind, NormalizedAddress, all_forms, normalize_address
from app.db.address_forms import find_digests
from app.db.expressions import in_json
from app.db.models import BlockedAddress, List, ListField, Unsubscriber
from app.db.public_ids import LIST_ID
from app.lists.fields import ADDRESS_KEYS, ListSpec


@dataclass(frozen=True, slots=True)
class UnsubscriberEntries:
    """The entries of some addresses on the unsubscribers list, seen from one list."""

    list_id: int
    lists_by_address: Mapping[NormalizedAddress, Collection[int | None]]
    """Address -> the lists that it has unsubscribed from; None stands for the whole account."""
    unique_kind: AddressKind | None
    """The kind of address that no two contacts of the list share now, whatever a list spec that was read before said;
    None if any may."""
    forgotten: Mapping[str, NormalizedAddress] = field(default_factory=dict)
    """Digest -> address, for those that were forgotten while they were unsubscribed or blocked."""
    blocked: Collection[NormalizedAddress] = ()
    """The forgotten addresses that were blocked."""

    def has_any(self, address: NormalizedAddress) -> bool:
        """Whether the address is unsubscribed from any list or account-wide."""
        return address in self.lists_by_address

    def has_own(self, address: NormalizedAddress) -> bool:
        """Whether there is an entry of this list itself."""
        return self.list_id in self.lists_by_address.get(address, ())

    def is_unsubscribed(self, address: NormalizedAddress) -> bool:
        """Whether this list must not send to the address: because of its own entry or an account-wide one."""
        lists = self.lists_by_address.get(address, ())
        return self.list_id in lists or None in lists


def find_unsubscriber_entries(
    session: Session,
    contact_list: ListSpec,
    addresses: Collection[NormalizedAddress],
    *,
    changes_addresses: bool = False,
) -> UnsubscriberEntries:
    """The entries of the addresses, seen from the list: one statement, none for no addresses unless some are taken from
    contacts. Those that give contacts the addresses go on with `forgotten.restore_found`."""
    unique_kind = contact_list.unique_kind
    lists: dict[NormalizedAddress, set[int | None]] = {}
    forgotten: dict[str, NormalizedAddress] = {}
    blocked: set[NormalizedAddress] = set()
    if addresses or changes_addresses:
        digests = find_digests(session, addresses) if contact_list.has_digests else {}
        statement = _entries(contact_list.account_id, addresses, digests)
        ids = {ACCOUNT_ID.key: contact_list.account_id, LIST_ID.key: contact_list.id}
        rows = session.connection().execute(statement, ids)
        for kind, key, list_id, is_blocked in rows:
            if kind == OF_LIST:
                unique_kind = cast(AddressKind | None, ADDRESS_KEYS.get(key))
                continue
            address = normalize_address(cast(AddressKind, kind), key)
            if key in digests:
                address = forgotten[key] = digests[key]
            if is_blocked:
                blocked.add(address)
            else:
                lists.setdefault(address, set()).add(list_id)
    return UnsubscriberEntries(contact_list.id, lists, unique_kind, forgotten, blocked)


OF_LIST = "list"
"""In place of a kind: what the row has is not an address, but the type of the field whose values are unique."""
# Of both types the first in the alphabet counts, as in `ListSpec.identifier`.
_ADDRESS_TYPE = select(func.min(ListField.type)).where(ListField.list_id == List.id, ListField.type.in_(ADDRESS_KEYS))
_UNIQUE_TYPE = case((List.allow_duplicates, null()), else_=_ADDRESS_TYPE.scalar_subquery())
ACCOUNT_ID = bindparam("account_id", type_=BigInteger)
_IS_LIST = List.account_id == ACCOUNT_ID, List.id == LIST_ID
_ROW_OF_LIST = select(literal(OF_LIST), _UNIQUE_TYPE, List.id, literal(False)).where(*_IS_LIST)


def _entries(
    account_id: int, addresses: Collection[NormalizedAddress], digests: Mapping[str, NormalizedAddress]
) -> CompoundSelect[Any]:
    """Kind, address or digest, list, and whether it is blocked: blocked addresses are looked for by digests alone. And
    the row of the list, whose ids are parameters: the statement has this part ready, which is costly to build."""
    columns: list[Any] = [Unsubscriber.kind, Unsubscriber.address, Unsubscriber.list_id, literal(False)]
    entry: Select[Any] = select(*columns)
    stored = [*addresses, *(NormalizedAddress(address.kind, digest) for digest, address in digests.items())]
    unsubscribed = entry.where(Unsubscriber.account_id == account_id, entries_of(stored))
    if not digests:
        return union_all(unsubscribed, _ROW_OF_LIST)
    block = select(BlockedAddress.kind, BlockedAddress.address, null(), literal(True))
    has_digest = in_json(BlockedAddress.kind, ADDRESS_KINDS), in_json(BlockedAddress.address, list(digests))
    return union_all(unsubscribed, _ROW_OF_LIST, block.where(BlockedAddress.account_id == account_id, *has_digest))


def lists_of_entries(
    session: Session, account_id: int, addresses: Collection[NormalizedAddress]
) -> dict[NormalizedAddress, set[int | None]]:
    """The lists that each of the addresses has unsubscribed from; None stands for the whole account."""
    columns = Unsubscriber.kind, Unsubscriber.address, Unsubscriber.list_id
    entries = select(*columns).where(Unsubscriber.account_id == account_id, entries_of(addresses))
    lists: dict[NormalizedAddress, set[int | None]] = {}
    for kind, key, list_id in session.execute(entries):
        lists.setdefault(normalize_address(cast(AddressKind, kind), key), set()).add(list_id)
    return lists


def entries_of(addresses: Iterable[NormalizedAddress]) -> ColumnElement[bool]:
    """Entries of these addresses, in whatever form they are stored."""
    keys_by_kind = by_kind(addresses).items()
    return or_(
        false(), *(and_(Unsubscriber.kind == kind, in_json(Unsubscriber.address, keys)) for kind, keys in keys_by_kind)
    )


def by_kind(addresses: Iterable[NormalizedAddress]) -> dict[AddressKind, list[str]]:
    """The keys of the addresses of each kind, in all forms in which they may be stored."""
    keys: dict[AddressKind, list[str]] = {}
    for kind, key in addresses:
        keys.setdefault(kind, []).append(key)
    return {kind: all_forms(kind_keys) for kind, kind_keys in keys.items()}
