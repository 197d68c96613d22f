"""The people of a send: who they are in the list, and their rows, which are the queue (design: the way of one send)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select

from app.contacts.get_or_create import get_or_create_contacts
from app.contacts.subscriptions import Kind, address_of
from app.db.database import Transaction
from app.db.in_json import in_json
from app.db.models import Contact
from app.lists.fields import ListSpec
from app.recipients.states import RecipientState
from app.sends.accept.draft import MessageType, RecipientDraft, SendDraft
from app.sends.delivery.suppression import INVALID_CONTACT_ID

ADDRESS_KINDS: dict[MessageType, Kind] = {"email": "email", "sms": "mobile"}
"""The kind of address that a message of a type goes to."""

OPEN_TYPES: dict[MessageType, str] = {"email": "not_opened", "sms": "sms"}


class ResolvedRecipient(NamedTuple):
    """A recipient as the list knows it; a `reason` says already why nothing will be sent."""

    contact_id: int | None
    address: str | None
    reason: str | None = None


UNKNOWN_CONTACT = ResolvedRecipient(None, None, INVALID_CONTACT_ID)


def resolve_recipients(
    transaction: Transaction, draft: SendDraft, contact_list: ListSpec | None
) -> list[ResolvedRecipient]:
    """Who each recipient is. Contacts that the list lacks are created (specification: Transactional send, rule 3).

    Without a list an address is just that. Raises `list_not_mutable` where a system list lacks a contact.
    """
    kind = ADDRESS_KINDS[draft.type]
    addresses = [_address(kind, one) for one in draft.recipients]
    if contact_list is None:
        return [ResolvedRecipient(None, address) for address in addresses]
    named = _named(
        transaction, contact_list, [one.contact_id for one in draft.recipients if one.contact_id is not None]
    )
    ids = _ids(transaction, contact_list, kind, [address for address in addresses if address is not None])
    return [
        named.get(one.contact_id, UNKNOWN_CONTACT)
        if one.contact_id is not None
        else ResolvedRecipient(ids(address), address)
        for one, address in zip(draft.recipients, addresses, strict=True)
    ]


def _address(kind: Kind, recipient: RecipientDraft) -> str | None:
    return recipient.email if kind == "email" else recipient.mobile


def _named(transaction: Transaction, contact_list: ListSpec, ids: Sequence[int]) -> dict[int, ResolvedRecipient]:
    """The contacts of the list with these ids, without an address: delivery takes the one that they have then."""
    if not ids:
        return {}
    statement = select(Contact.id).where(Contact.list_id == contact_list.id, in_json(Contact.id, ids))
    found = transaction.connection().execute(statement).scalars()
    return {contact_id: ResolvedRecipient(contact_id, None) for contact_id in found}


def _ids(
    transaction: Transaction, contact_list: ListSpec, kind: Kind, addresses: Sequence[str]
) -> Callable[[str | None], int | None]:
    """A look-up of the contact of each of the addresses."""
    found = get_or_create_contacts(transaction, contact_list, kind, addresses) if addresses else {}

    def contact_of(text: str | None) -> int | None:
        address = address_of(kind, text)
        return found.get(address.key) if address else None

    return contact_of


def recipient_rows(draft: SendDraft, resolved: Sequence[ResolvedRecipient]) -> list[dict[str, Any]]:
    """What tells the rows of the queue apart, one per recipient."""
    kind = ADDRESS_KINDS[draft.type]
    return [
        {
            "uuid": str(uuid.uuid4()),
            "contact_id": recipient.contact_id,
            kind: recipient.address,
            "reason": recipient.reason,
            "values": one.values,
        }
        for one, recipient in zip(draft.recipients, resolved, strict=True)
    ]


def shared_columns(draft: SendDraft, account_id: int, group_id: int, accepted_time: datetime) -> dict[str, Any]:
    """What they have in common: all are due at once."""
    return {
        "account_id": account_id,
        "group_id": group_id,
        "message_id": draft.message_id,
        "list_id": draft.list_id,
        "type": draft.type,
        "state": RecipientState.QUEUED.value,
        "creation_time": accepted_time.replace(microsecond=0),
        "due_time": accepted_time,
        "attempts": 0,
        "open_type": OPEN_TYPES[draft.type],
    }
