"""Writing an accepted send: group, send, links, recipients with their queue entries, and attachments, in a fixed number
of statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.addresses import ADDRESS_KIND_BY_TYPE, AddressKind, normalize_address
from app.clock import now
from app.contacts.get_or_create import get_or_create_contacts
from app.content.attachments import new_content_id
from app.db.bulk import ChildRows, CompanionRows, draw_ids, insert_at_commit, insert_rows, insert_with_children
from app.db.counters import count_tags
from app.db.database import Transaction
from app.db.engine import release_after
from app.db.models import Attachment, QueueEntry, Recipient, RecipientLabel, Send, SendLink
from app.ids import new_uuids
from app.infrastructure import metrics
from app.lists.fields import ListSpec
from app.recipients.labels import labels
from app.recipients.states import FailReason, RecipientState
from app.sends.accept.content import Content
from app.sends.accept.draft import AttachmentDraft, MessageType, Priority, RecipientDraft, SendDraft
from app.sends.accept.references import NamedContacts, SendGroup, SendingAccount, addresses_of, count_send, create_group
from app.sends.accept.senders import Sender
from app.sends.secret_values import encrypt_values, without_secrets
from app.tracking.links import exempt_none, has_secret, link_rows

# The recipient rows of a send, and their entries in the send queue (docs/architecture.md#a-send).

OPEN_TYPES: dict[MessageType, str] = {"email": "not_opened", "sms": "sms"}


def create_contacts(
    transaction: Transaction, draft: SendDraft, contact_list: ListSpec | None, named: NamedContacts
) -> NamedContacts:
    """The contacts of the recipients. Those that the list lacks are created (docs/sending.md#recipients); without a
    list there are none. Raises `list_not_mutable` if a system list lacks a contact."""
    if contact_list is None:
        return named
    kind, addresses = ADDRESS_KIND_BY_TYPE[draft.type], addresses_of(draft)
    by_key = get_or_create_contacts(transaction, contact_list, kind, addresses, named.by_key)
    return NamedContacts(named.ids, by_key)


def recipient_rows(draft: SendDraft, named: NamedContacts) -> list[dict[str, Any]]:
    """The columns that differ between the rows.

    A recipient named by `contact_id` has no address yet: delivery uses the one that the contact has then.
    """
    kind = ADDRESS_KIND_BY_TYPE[draft.type]
    rows = []
    for uuid, recipient in zip(new_uuids(len(draft.recipients)), draft.recipients, strict=True):
        contact_id = _contact_id(kind, recipient, named)
        is_invalid = contact_id is None and recipient.contact_id is not None
        rows.append(
            {
                "uuid": uuid,
                "contact_id": contact_id,
                kind: _address(kind, recipient),
                "reason": FailReason.INVALID_CONTACT_ID.value if is_invalid else None,
                "values": without_secrets(recipient.values, draft.secret_values),
            }
        )
    if draft.metadata or any(recipient.metadata for recipient in draft.recipients):
        for row, recipient in zip(rows, draft.recipients, strict=True):
            row["custom_metadata"] = draft.metadata_of(recipient)
    return rows


def _address(kind: AddressKind, recipient: RecipientDraft) -> str | None:
    return recipient.email if kind == "email" else recipient.mobile


def _contact_id(kind: AddressKind, recipient: RecipientDraft, named: NamedContacts) -> int | None:
    if recipient.contact_id is not None:
        return recipient.contact_id if recipient.contact_id in named.ids else None
    address = _address(kind, recipient)
    return named.by_key.get(normalize_address(kind, address).key) if address is not None and named.by_key else None


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
        **({"tags": list(draft.tags)} if draft.tags else {}),
    }


def encrypted_values(secret_key: str, draft: SendDraft, rows: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """The secret values of each recipient as its queue entry has them; empty for a send without any."""
    if not draft.secret_values:
        return []
    return [
        encrypt_values(secret_key, row["uuid"], recipient.values, draft.secret_values)
        for row, recipient in zip(rows, draft.recipients, strict=True)
    ]


# Open and click tracking of a send: as the request says, else as the account is set.


@dataclass(frozen=True, slots=True)
class TrackingOptions:
    """Whether opens of a send's messages and clicks on their links are tracked."""

    opens: bool
    clicks: bool
    secret_links: bool = False
    """Whether links that look as if they contained a secret are also tracked: only if the request itself says so."""

    @classmethod
    def of(cls, draft: SendDraft, account: SendingAccount) -> TrackingOptions:
        """The options of the request, with those of the account as defaults; text messages are not tracked."""
        if draft.type == "sms":
            return cls(opens=False, clicks=False)
        return cls(
            opens=account.track_opens if draft.track_opens is None else draft.track_opens,
            clicks=account.track_clicks if draft.track_clicks is None else draft.track_clicks,
            secret_links=draft.track_clicks is True,
        )

    def link_rows(self, content: Content) -> list[dict[str, Any]]:
        """The rows of the links to track."""
        if not self.clicks:
            return []
        return link_rows(content.body_html, content.body_text, exempt_none if self.secret_links else has_secret)


@dataclass(frozen=True, slots=True)
class ValidSend:
    """A send without violations, with everything it refers to."""

    draft: SendDraft
    content: Content
    sender: Sender
    group: SendGroup
    contact_list: ListSpec | None
    tracking: TrackingOptions
    priority: Priority
    automation_id: int | None = None
    """Where a step of an automation sends; the step is the group then."""
    is_test: bool = False
    """Whether its account is a test account."""


def entry_columns(valid: ValidSend, account_id: int, accepted: datetime) -> dict[str, Any]:
    """The columns that the queue entries of all recipients share: they are due at once, or at the `send_at`."""
    send_at = valid.draft.send_at
    due_time = send_at or accepted
    return {
        "account_id": account_id,
        "type": valid.draft.type,
        "priority": valid.priority,
        "state": (RecipientState.SCHEDULED if send_at else RecipientState.QUEUED).value,
        "due_time": due_time,
        "ready_time": due_time,
        "attempts": 0,
    }


@dataclass(frozen=True, slots=True)
class AcceptedSend:
    """The uuids of the recipients in the order of the request, and the group that collects the results."""

    uuids: tuple[str, ...]
    group_id: int


def write_send(
    transaction: Transaction,
    account_id: int,
    request_id: str,
    valid: ValidSend,
    rows: list[dict[str, Any]],
    *,
    secret_values: Sequence[str | None] = (),
) -> AcceptedSend:
    """Writes the send with its recipients, whose own columns are the `rows`; `secret_values` are those of their queue
    entries, if the send has any."""
    draft, group, accepted = valid.draft, valid.group, now()
    creation_time, count = accepted.replace(microsecond=0), len(rows)
    group_id = group.id or create_group(
        transaction, account_id, draft.type, group.name, recipients=count, send_time=creation_time
    )
    has_labels = bool(draft.tags) or "custom_metadata" in rows[0]
    has_own = has_labels or any(recipient.attachments for recipient in draft.recipients)
    if has_own or secret_values:
        ids = draw_ids(transaction, Recipient, count)
        rows = [{"id": row_id, **row} for row_id, row in zip(ids, rows, strict=True)]
    entries = entry_columns(valid, account_id, accepted)
    companions = None if secret_values else CompanionRows(QueueEntry, "recipient_id", entries)
    shared = shared_columns(draft, account_id, group_id, accepted)
    families = [
        ChildRows(Recipient, "send_id", rows, shared, companions),
        ChildRows(SendLink, "send_id", valid.tracking.link_rows(valid.content), {"account_id": account_id}),
    ]
    send = send_columns(account_id, request_id, valid, group_id, creation_time)
    if draft.attachments or has_own or secret_values:
        send_id = insert_with_children(transaction, Send, send, families)
        _insert_attachments(transaction, _attachment_rows(account_id, send_id, draft, rows))
        insert_rows(transaction, QueueEntry, _entries_with_secrets(rows, secret_values), entries)
        if has_labels:
            _write_labels(transaction, account_id, draft, rows, creation_time)
    else:
        insert_at_commit(transaction, Send, send, families)
    if group.id is not None:
        count_send(transaction, account_id, group.id, recipients=count, send_time=creation_time)
    accepted_count = metrics.ACCEPTED.labels(metrics.account_class(is_test=valid.is_test), draft.type)
    transaction.after_commit(lambda: accepted_count.inc(count))
    return AcceptedSend(tuple(row["uuid"] for row in rows), group_id)


def send_columns(
    account_id: int, request_id: str, valid: ValidSend, group_id: int, creation_time: datetime
) -> dict[str, Any]:
    """The send with a copy of its content: later changes of a saved message do not affect it."""
    draft, content, sender = valid.draft, valid.content, valid.sender
    automation_columns = {"automation_id": valid.automation_id, "step_id": group_id} if valid.automation_id else {}
    time_columns = {"send_at": draft.send_at} if draft.send_at else {}
    return {
        **automation_columns,
        **time_columns,
        "account_id": account_id,
        "request_id": request_id,
        "creation_time": creation_time,
        "type": draft.type,
        "list_id": draft.list_id,
        "group_id": group_id,
        "group_name": valid.group.name,
        "message_id": draft.message_id,
        "unsubscribe_type": draft.unsubscribe_type if draft.type == "sms" else None,
        "subject": content.subject,
        "from_name": sender.name,
        "from_address": sender.address,
        "reply_to": content.reply_to,
        "bcc_address": draft.bcc_address,
        "body_html": content.body_html,
        "body_text": content.body_text,
        "priority": valid.priority,
        "transport": draft.transport,
        "include_unsubscribed": draft.include_unsubscribed,
        "recipient_data_html_encoded": draft.recipient_data_html_encoded,
        "track_opens": valid.tracking.opens,
        "track_clicks": valid.tracking.clicks,
        "track_secrets": valid.tracking.secret_links,
        "literal": draft.literal,
        "headers": draft.headers or None,
    }


def _entries_with_secrets(rows: Sequence[dict[str, Any]], secret_values: Sequence[str | None]) -> list[dict[str, Any]]:
    """The own columns of queue entries; none for a send without secret values, whose entries are companions."""
    pairs = zip(rows, secret_values, strict=True) if secret_values else ()
    return [{"recipient_id": row["id"], "secret_values": stored} for row, stored in pairs]


def _write_labels(
    transaction: Transaction,
    account_id: int,
    draft: SendDraft,
    rows: Sequence[Mapping[str, Any]],
    creation_time: datetime,
) -> None:
    """Writes the labels of the recipients, and counts those of the tags."""
    label_rows = [
        {"recipient_id": row["id"], "label": label}
        for row in rows
        for label in labels(draft.tags, row.get("custom_metadata"))
    ]
    insert_rows(transaction, RecipientLabel, label_rows, {"account_id": account_id, "creation_time": creation_time})
    count_tags(transaction, account_id, draft.tags, creation_time, sent=len(rows))


def _insert_attachments(transaction: Transaction, attachments: list[dict[str, Any]]) -> None:
    insert_rows(transaction, Attachment, attachments)
    release_after(transaction, sum(len(attachment["content"]) for attachment in attachments))


def _attachment_rows(
    account_id: int, send_id: int, draft: SendDraft, rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The attachments of the send, then those of single recipients, each in the order of the request."""
    owned: list[tuple[int | None, AttachmentDraft]] = [(None, attachment) for attachment in draft.attachments]
    for row, recipient in zip(rows, draft.recipients, strict=True):
        owned += [(row["id"], attachment) for attachment in recipient.attachments]
    return [
        {
            "account_id": account_id,
            "send_id": send_id,
            "recipient_id": recipient_id,
            "position": position,
            "name": attachment.name,
            "mime_type": attachment.mime_type,
            "content_id": attachment.content_id or new_content_id(),
            "content": attachment.content,
        }
        for position, (recipient_id, attachment) in enumerate(owned)
    ]
