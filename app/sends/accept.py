"""Accepting a send: one transaction with a fixed number of statements, for 1 recipient as for 100.

The body is known to be well-formed by now. What needs the database is looked up, every rule that is broken is
collected, and only then anything is written: contacts, group, send, recipients, attachments. Nothing is sent from
here; the recipients are the queue, and a worker is woken once they are safe (design: the way of one send).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert

from app.clock import now
from app.contacts.rules import raise_in_order
from app.content.attachments import new_content_id
from app.db.bulk import draw_ids, insert_rows
from app.db.database import Transaction
from app.db.models import Attachment, Recipient, Send
from app.errors import ErrorCollector
from app.lists.fields import ListSpec
from app.lists.find import lists_by_id
from app.queueing import SENDS
from app.sends.content import Content, SavedMessage, check_content, merged
from app.sends.draft import AttachmentDraft, SendDraft
from app.sends.groups import GroupOfSend, count_send, create_group, find_group
from app.sends.opt_out import check_opt_out
from app.sends.recipients import Person, find_people, recipient_rows
from app.sends.senders import Sender, account_sender, email_sender, sms_sender
from app.services import Services


@dataclass(frozen=True, slots=True)
class Accepted:
    """What was promised: an uuid per recipient in the order of the request, and the group that will tell."""

    uuids: tuple[str, ...]
    group_id: int


@dataclass(frozen=True, slots=True)
class Checked:
    """A send that breaks no rule, with all that it refers to."""

    draft: SendDraft
    content: Content
    sender: Sender
    group: GroupOfSend
    lst: ListSpec | None


def accept(
    transaction: Transaction,
    services: Services,
    account_id: int,
    draft: SendDraft,
    saved: SavedMessage | None,
    request_id: str,
) -> Accepted:
    """Writes the send and promises its delivery. `saved` is the message that it refers to, None for none or unknown.

    Raises `ServiceError` with every broken rule, the first being the one that stands first in the specification's
    tables (decisions: 11); then nothing may be kept of the transaction.
    """
    checked = _check(transaction, services, account_id, draft, saved)
    people = find_people(transaction, draft, checked.lst)
    accepted = _write(transaction, account_id, checked, people, request_id)
    transaction.after_commit(lambda: services.wake_ups.wake(SENDS))
    return accepted


def _check(
    transaction: Transaction, services: Services, account_id: int, draft: SendDraft, saved: SavedMessage | None
) -> Checked:
    errors = ErrorCollector()
    content = merged(draft, saved)
    check_content(draft, saved, content, errors)
    lst = _find_list(transaction, account_id, draft, errors)
    sender = _find_sender(transaction, account_id, draft, content, lst, errors)
    group = find_group(transaction, account_id, draft, services.settings.max_groups, errors)
    raise_in_order(errors.errors)
    assert sender is not None
    assert group is not None
    return Checked(draft, content, sender, group, lst)


def _find_list(transaction: Transaction, account_id: int, draft: SendDraft, errors: ErrorCollector) -> ListSpec | None:
    """The list of the recipients; it must have an address field for the type of the send."""
    if draft.list_id is None:
        return None
    lst = lists_by_id(transaction, account_id, [draft.list_id]).get(draft.list_id)
    if lst is None:
        errors.add("invalid_id", field="list_id", detail=f"list_id: there is no list {draft.list_id}.")
    elif not (lst.has_email if draft.type == "email" else lst.has_mobile):
        field = "Email" if draft.type == "email" else "Mobile Phone"
        detail = f"list_id: the list {lst.id} has no field of the type {field}."
        errors.add("list_address_field_missing", field="list_id", detail=detail)
    return lst


def _find_sender(
    transaction: Transaction,
    account_id: int,
    draft: SendDraft,
    content: Content,
    lst: ListSpec | None,
    errors: ErrorCollector,
) -> Sender | None:
    account = account_sender(transaction, account_id, errors)
    if draft.message_id is not None and saved is None:
        ...
