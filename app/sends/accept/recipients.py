"""The recipient rows of a send, and their entries in the send queue (docs/architecture.md#a-send)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from app.addresses import ADDRESS_KIND_BY_TYPE, AddressKind, normalize_address
from app.contacts.get_or_create import get_or_create_contacts
from app.db.database import Transaction
from app.ids import new_uuid
from app.lists.fields import ListSpec
from app.recipients.reasons import FailReason
from app.recipients.states import RecipientState
from app.sends.accept.draft import MessageType, Priority, RecipientDraft, SendDraft
from app.sends.accept.named_contacts import NamedContacts, addresses_of
from app.sends.secret_values import encrypt_values, without_secrets

OPEN_TYPES: dict[MessageType, str] = {"email": "not_opened", "sms": "sms"}


def recipient_rows(
    transaction: Transaction, draft: SendDraft, contact_list: ListSpec | None, named: NamedContacts
) -> list[dict[str, Any]]:
    """The columns that differ between the rows. Contacts that the list lacks are created (docs/sending.md#recipients);
    without a list there are no contacts. Raises `list_not_mutable` if a system list lacks a contact.

    A recipient named by `contact_id` has no address yet: delivery uses the one that the contact has then.
    """
    kind = ADDRESS_KIND_BY_TYPE[draft.type]
    contact_of = _contacts(transaction, contact_list, draft, named) if contact_list else _no_contact
    rows = []
    for recipient in draft.recipients:
        contact_id = contact_of(recipient)
        is_invalid = contact_id is None and recipient.contact_id is not None
        rows.append(
            {
                "uuid": new_uuid(),
                "contact_id": contact_id,
                kind: _address(kind, recipient),
                "reason": FailReason.INVALID_CONTACT_ID.value if is_invalid else None,
                "values": without_secrets(recipient.values, draft.secret_values),
            }
        )
    return rows


def _address(kind: AddressKind, recipient: RecipientDraft) -> str | None:
    return recipient.email if kind == "email" else recipient.mobile


def _no_contact(_recipient: RecipientDraft) -> int | None:
    return None


def _contacts(
    transaction: Transaction, contact_list: ListSpec, draft: SendDraft, named: NamedContacts
) -> Callable[[RecipientDraft], int | None]:
    """A lookup of each recipient's contact, with statements only if contacts are created."""
    kind, addresses = ADDRESS_KIND_BY_TYPE[draft.type], addresses_of(draft)
    by_key = get_or_create_contacts(transaction, contact_list, kind, addresses, named.by_key)

    def contact_of(recipient: RecipientDraft) -> int | None:
        if recipient.contact_id is not None:
            return recipient.contact_id if recipient.contact_id in named.ids else None
        address = _address(kind, recipient)
        return None if address is None else by_key.get(normalize_address(kind, address).key)

    return contact_of


def shared_columns(draft: SendDraft, account_id: int, group_id: int, accepted: datetime) -> dict[str, Any]:
    """The columns that are the same in all rows."""
    return {
        "account_id": account_id,
        "group_id": group_id,
        "message_id": draft.message_id,
        "list_id": draft.list_id,
        "type": draft.type,
        "state": RecipientState.QUEUED.value,
        "creation_time": accepted.replace(microsecond=0),
        "attempts": 0,
        "open_type": OPEN_TYPES[draft.type],
    }


def encrypted_values(secret_key: str, draft: SendDraft, rows: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """The secret values of each recipient as its queue entry has them; empty for a send without any."""
    if not draft.secret_values:
        return []
    return [
        encrypt_values(secret_key, row["uuid"], recipient.values, draft.secret_values)
        for row, recipient in zip(rows, draft.recipients, strict=True)
    ]


def entry_columns(type_: MessageType, priority: Priority, account_id: int, accepted: datetime) -> dict[str, Any]:
    """The columns that the queue entries of all recipients share: they are due at once."""
    return {
        "account_id": account_id,
        "type": type_,
        "priority": priority,
        "state": RecipientState.QUEUED.value,
        "due_time": accepted,
        "ready_time": accepted,
        "attempts": 0,
    }
