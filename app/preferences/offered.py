"""The lists that an account offers, as one person has them (docs/preferences.md#the-page). Five statements with that of
the link, whatever the number of lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, AccountAddress, AddressKind, NormalizedAddress, all_forms, normalize_address
from app.contacts.subscriptions import ADDRESS_COLUMNS, UnsubscriberEntry
from app.db.expressions import in_json
from app.db.models import Contact, List, Recipient, Unsubscriber
from app.ids import shown_id
from app.lists.define import MAX_OFFERED_LISTS
from app.lists.fields import ListSpec
from app.lists.find import LIST_WITH_FIELDS_COLUMNS, list_of
from app.sends.skipping import MESSAGE_TYPES, Suppressions, load_suppressions
from app.tracking.feedback_channels import UnsubscribeRequest


@dataclass(frozen=True, slots=True)
class Channel:
    """Emails or text messages of an offered list to one address."""

    address: NormalizedAddress
    has_contact: bool
    """Whether a contact of the list has the address."""
    is_unsubscribed: bool
    is_stopped: bool
    """Whether the person cannot switch it on: the address is blocked, the contact is not active, or the address has
    itself unsubscribed and is not that of the link."""

    @property
    def is_on(self) -> bool:
        """Whether messages of the list go to the address."""
        return self.has_contact and not self.is_unsubscribed and not self.is_stopped


@dataclass(frozen=True, slots=True)
class OfferedList:
    """A list with what people read of it, and the channels that a person may choose, by kind of address."""

    contact_list: ListSpec
    name: str
    description: str | None
    channels: Mapping[AddressKind, Channel] = field(default_factory=dict)

    @property
    def id(self) -> int:
        """Its id, as everybody outside knows it."""
        return shown_id(self.contact_list.id)


def offered_lists(session: Session, account_id: int) -> Sequence[OfferedList]:
    """The lists that the account offers, the oldest first, without channels."""
    statement = (
        select(*LIST_WITH_FIELDS_COLUMNS, List.offered_name, List.offered_description)
        .where(List.account_id == account_id, List.offered)
        .order_by(List.creation_time, List.id)
        .limit(MAX_OFFERED_LISTS)
    )
    return [
        OfferedList(list_of(row), row.offered_name or row.list_name or "", row.offered_description)
        for row in session.execute(statement)
    ]


def with_channels(
    session: Session, request: UnsubscribeRequest, offered: Sequence[OfferedList]
) -> Sequence[OfferedList]:
    """The lists with their channels for the person whom the message of the link went to: the address of the message,
    and the other one of the contact that has it. Without a contact, the address of the message in lists that it can
    join. A list without either is left out."""
    address = normalize_address(request.kind, request.address)
    contacts = _contacts(session, request.account_id, address, [each.contact_list.id for each in offered])
    pairs = [(each, contacts.get(each.contact_list.id)) for each in offered]
    addresses_by_list = {each.id: _addresses(each.contact_list, contact, address) for each, contact in pairs}
    addresses = {address for addresses in addresses_by_list.values() for address in addresses}
    states = _States.load(session, request, addresses)
    return [
        replace(
            each,
            channels={
                address.kind: _channel(each.contact_list, contact, address, states)
                for address in addresses_by_list[each.id]
            },
        )
        for each, contact in pairs
        if addresses_by_list[each.id]
    ]


@dataclass(frozen=True, slots=True)
class _States:
    """What is known of addresses: their suppressions, and the other addresses that a message of the link's kind has
    unsubscribed, each with the list or None."""

    suppressions: Suppressions
    kind: AddressKind
    switched_off: Collection[UnsubscriberEntry]

    @classmethod
    def load(cls, session: Session, request: UnsubscribeRequest, addresses: Collection[NormalizedAddress]) -> _States:
        """Two statements."""
        account_id, others = request.account_id, [address for address in addresses if address.kind != request.kind]
        suppressions = load_suppressions(session, [AccountAddress(account_id, *address) for address in addresses])
        caused = and_(Recipient.account_id == Unsubscriber.account_id, Recipient.uuid == Unsubscriber.uuid)
        entries = (
            select(Unsubscriber.kind, Unsubscriber.address, Unsubscriber.list_id)
            .join(Recipient, caused)
            .where(
                Unsubscriber.account_id == account_id,
                Unsubscriber.kind != request.kind,
                in_json(Unsubscriber.address, all_forms(address.key for address in others)),
                Recipient.type == MESSAGE_TYPES[request.kind],
            )
        )
        rows = session.execute(entries)
        switched_off = {(normalize_address(cast("AddressKind", kind), key), list_id) for kind, key, list_id in rows}
        return cls(suppressions, request.kind, switched_off)

    def has_entry(self, address: AccountAddress, list_id: int | None) -> bool:
        """Whether the address is unsubscribed by that entry."""
        return (address, list_id) in self.suppressions.unsubscribed

    def may_be_lifted(self, address: NormalizedAddress, contact_list: ListSpec) -> bool:
        """Whether who has the link may lift what unsubscribes the address: their own address any, another one only
        what such a link has done."""
        if address.kind == self.kind:
            return True
        account_address = AccountAddress(contact_list.account_id, *address)
        present = [list_id for list_id in (contact_list.id, None) if self.has_entry(account_address, list_id)]
        return bool(present) and all((address, list_id) in self.switched_off for list_id in present)


def _contacts(
    session: Session, account_id: int, address: NormalizedAddress, list_ids: Collection[int]
) -> Mapping[int, Any]:
    """List -> its contact with the address: as for a send, of several the oldest active one."""
    statement = select(
        Contact.list_id,
        Contact.email,
        Contact.mobile,
        Contact.subscribed_email,
        Contact.subscribed_mobile,
        Contact.is_active,
    ).where(
        Contact.account_id == account_id,
        in_json(Contact.list_id, list_ids),
        in_json(ADDRESS_COLUMNS[address.kind], all_forms([address.key])),
    )
    # A later row replaces an earlier one of the same list.
    ordered = statement.order_by(Contact.is_active, Contact.creation_time.desc(), Contact.id.desc())
    return {row.list_id: row for row in session.execute(ordered)}


def _addresses(contact_list: ListSpec, contact: Any, address: NormalizedAddress) -> Sequence[NormalizedAddress]:
    if contact is None:
        has_field = contact_list.has_email if address.kind == "email" else contact_list.has_mobile
        return [address] if has_field and not contact_list.system else []
    texts = {kind: getattr(contact, kind) for kind in ADDRESS_KINDS}
    return [normalize_address(kind, text) for kind, text in texts.items() if text is not None]


def _channel(contact_list: ListSpec, contact: Any, address: NormalizedAddress, states: _States) -> Channel:
    account_address = AccountAddress(contact_list.account_id, *address)
    is_unsubscribed = any(states.has_entry(account_address, list_id) for list_id in (contact_list.id, None))
    is_stopped = account_address in states.suppressions.blocked
    if contact is not None:
        is_unsubscribed = is_unsubscribed or not getattr(contact, f"subscribed_{address.kind}")
        is_stopped = is_stopped or not contact.is_active
    if is_unsubscribed and not is_stopped:
        is_stopped = not states.may_be_lifted(address, contact_list)
    return Channel(address, contact is not None, is_unsubscribed, is_stopped)
