"""Who gets nothing, and why: the one rule that delivery, dry runs, `sends explain` and automations ask
(docs/delivery.md#skipped-recipients).

What it judges by is loaded for many recipients in a fixed number of selects: their contacts, and the suppressions of
their addresses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from sqlalchemy import BindParameter, ColumnElement, Select, String, bindparam, literal_column, null, select, union_all
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KIND_BY_TYPE, AccountAddress, AddressKind, all_forms
from app.contacts.row import ContactRow, load_contact_rows
from app.db.address_forms import find_digests
from app.db.expressions import in_json, json_array
from app.db.models import BlockedAddress, Unsubscriber
from app.db.prepared import PreparedStatement
from app.inbox.magic import magic_of
from app.recipients.states import FailReason

MESSAGE_TYPES: Mapping[AddressKind, str] = {kind: type_ for type_, kind in ADDRESS_KIND_BY_TYPE.items()}
"""Kind of an address -> the type of the messages that go to it."""


class AddressedRecipient(Protocol):
    """A recipient by what names its address: itself, or a contact that must be in the list of its send."""

    @property
    def id(self) -> int: ...
    @property
    def account_id(self) -> int: ...
    @property
    def list_id(self) -> int | None: ...
    @property
    def contact_id(self) -> int | None: ...
    @property
    def type(self) -> str: ...
    @property
    def email(self) -> str | None: ...
    @property
    def mobile(self) -> str | None: ...


def load_contacts(session: Session, recipients: Iterable[AddressedRecipient]) -> dict[int, ContactRow]:
    """The contact of each recipient that still has one, by recipient id; no select if none refers to a contact."""
    by_id = load_contact_rows(
        session, (recipient.contact_id for recipient in recipients if recipient.contact_id is not None)
    )
    pairs = ((recipient, by_id.get(recipient.contact_id or 0)) for recipient in recipients)
    return {recipient.id: contact for recipient, contact in pairs if contact and _is_in_its_list(recipient, contact)}


def _is_in_its_list(recipient: AddressedRecipient, contact: ContactRow) -> bool:
    return contact.account_id == recipient.account_id and contact.list_id == recipient.list_id


def delivery_address(recipient: AddressedRecipient, contact: ContactRow | None) -> str | None:
    """The address of the request, else the current one of the contact."""
    if recipient.type == "email":
        return recipient.email or (contact.email if contact else None)
    return recipient.mobile or (contact.mobile if contact else None)


def suppression_key(recipient: AddressedRecipient, contact: ContactRow | None) -> AccountAddress | None:
    """The delivery address in the form in which the suppression tables store it."""
    address = delivery_address(recipient, contact)
    return AccountAddress.of(recipient.account_id, ADDRESS_KIND_BY_TYPE[recipient.type], address) if address else None


class Entry(NamedTuple):
    """An entry of the blocked or of the unsubscribed addresses."""

    since: datetime
    address: AccountAddress
    list_id: int | None
    """The list from which the address is unsubscribed; None for the whole account, and for a blocked address."""
    cause: str | None
    """Why the address was blocked; None for an unsubscribed one."""


@dataclass(frozen=True, slots=True)
class Suppressions:
    """Suppressed addresses, each with its entry; an unsubscribed one with its list, or with None for the whole
    account."""

    blocked: Mapping[AccountAddress, Entry]
    unsubscribed: Mapping[tuple[AccountAddress, int | None], Entry]


class Skip(NamedTuple):
    """A reason for which a recipient gets nothing, with the entry that was found. Who is unsubscribed without one is so
    by the flag of the contact alone."""

    reason: FailReason
    entry: Entry | None = None


STORED_REASONS = (FailReason.INVALID_CONTACT_ID, FailReason.UNREADABLE_VALUES)
"""Reasons that stand in the recipient: found when the send was accepted, or when the recipient was loaded."""


def skips(
    key: AccountAddress | None,
    contact: ContactRow | None,
    suppressions: Suppressions,
    *,
    list_id: int | None,
    names_contact: bool,
    include_unsubscribed: bool,
    is_test: bool,
    stored_reason: str | None = None,
) -> list[Skip]:
    """Why the recipient gets nothing: the first reason counts; empty if it is sent to. `key` is its `suppression_key`,
    `list_id` the list of its send, `names_contact` whether it is a contact, or was, and `stored_reason` the reason in
    its row. A test sends to a magic address again and again, whatever that has simulated."""
    reasons: list[Skip] = []
    if stored_reason is not None and stored_reason in STORED_REASONS:
        reasons.append(Skip(FailReason(stored_reason)))
    if contact is None and names_contact:
        reasons.append(Skip(FailReason.CONTACT_DELETED))
    if contact is not None and not contact.is_active:
        reasons.append(Skip(FailReason.CONTACT_INACTIVE))
    if key is None:
        reasons.append(Skip(FailReason.ADDRESS_MISSING))
        return reasons
    if is_test and magic_of(MESSAGE_TYPES[key.kind], key.key):
        return reasons
    if key in suppressions.blocked:
        reasons.append(Skip(FailReason.BLOCKED, suppressions.blocked[key]))
    if not include_unsubscribed:
        reasons += _unsubscribed(key, contact, suppressions.unsubscribed, list_id)
    return reasons


def _unsubscribed(
    key: AccountAddress,
    contact: ContactRow | None,
    entries: Mapping[tuple[AccountAddress, int | None], Entry],
    list_id: int | None,
) -> list[Skip]:
    """The reasons by an entry for the list or for the whole account, else by the flag of the contact alone."""
    reasons: list[Skip] = []
    if list_id is not None and (key, list_id) in entries:
        reasons.append(Skip(FailReason.UNSUBSCRIBED, entries[key, list_id]))
    if (key, None) in entries:
        reasons.append(Skip(FailReason.UNSUBSCRIBED, entries[key, None]))
    is_off = contact is not None and not (
        contact.subscribed_email if key.kind == "email" else contact.subscribed_mobile
    )
    if is_off and not reasons:
        reasons.append(Skip(FailReason.UNSUBSCRIBED))
    return reasons


def _parameter(name: str) -> BindParameter[Any]:
    return bindparam(name, type_=String)


def _suppressed(model: type[BlockedAddress | Unsubscriber], list_id: Any, cause: Any) -> Select[Any]:
    """Entries whose account and address both occur among the parameters, though not always as a pair."""
    table: ColumnElement[str] = literal_column(f"'{model.__tablename__}'").label("table_name")
    address = model.account_id, model.kind, model.address
    return select(table, *address, list_id.label("list_id"), model.creation_time, cause.label("cause")).where(
        in_json(model.account_id, _parameter("accounts")),
        in_json(model.kind, _parameter("kinds")),
        in_json(model.address, _parameter("addresses")),
    )


_UNSUBSCRIBED = _suppressed(Unsubscriber, Unsubscriber.list_id, null())
# Entries of a list and account-wide ones have an index each, which is used only if they are selected separately.
SUPPRESSIONS = PreparedStatement(
    union_all(
        _suppressed(BlockedAddress, null(), BlockedAddress.reason),
        _UNSUBSCRIBED.where(Unsubscriber.list_id.is_not(None)),
        _UNSUBSCRIBED.where(Unsubscriber.list_id.is_(None)),
    )
)


def load_suppressions(
    session: Session, addresses: Iterable[AccountAddress | None], *, has_digests: bool = True
) -> Suppressions:
    """The suppressions of these addresses; one select. `has_digests` is whether an account of these may keep some under
    digests (docs/privacy.md#what-is-kept)."""
    looked_up = {address for address in addresses if address}
    digests = _digests(session, looked_up) if has_digests else {}
    parameters = {
        "accounts": json_array({address.account_id for address in looked_up}),
        "kinds": json_array({address.kind for address in looked_up}),
        "addresses": json_array({*all_forms(address.key for address in looked_up), *digests}),
    }
    blocked: dict[AccountAddress, Entry] = {}
    unsubscribed: dict[tuple[AccountAddress, int | None], Entry] = {}
    for table, account_id, kind, key, list_id, since, cause in SUPPRESSIONS.tuples(session, **parameters):
        address = AccountAddress.of(account_id, kind, digests.get(key, key))
        entry = Entry(since, address, list_id, cause)
        if table == BlockedAddress.__tablename__:
            blocked[address] = min(entry, blocked.get(address, entry))
        else:
            unsubscribed[address, list_id] = min(entry, unsubscribed.get((address, list_id), entry))
    return Suppressions(blocked, unsubscribed)


def _digests(session: Session, addresses: Collection[AccountAddress]) -> dict[str, str]:
    """Digest -> address, as the tables store them. Those of one address are the same in all accounts."""
    return {digest: address.key for digest, address in find_digests(session, addresses).items()}
