"""Accepting a send: one transaction with a fixed number of statements, for 1 recipient as for 100.

The body is known to be well-formed by now. What needs the database is looked up, every rule that is broken is
collected, and only then anything is written: contacts, group, send, recipients, attachments. Nothing is sent from
here; the recipients are the queue, and a worker is woken once they are safe (design: the way of one send).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.clock import now
from app.contacts.rules import RANK
from app.content.attachments import new_content_id
from app.db.bulk import Family, draw_ids, insert_rows, insert_with_family
from app.db.database import Transaction
from app.db.engine import release_after
from app.db.models import Attachment, Recipient, Send, SendLink
from app.errors import ServiceError
from app.ids import named
from app.infrastructure.queueing import SENDS
from app.lists.fields import ListSpec
from app.lists.find import find_list
from app.sends.accept.check import SendCheck
from app.sends.accept.content import Content, SavedMessage, check_content, effective_content
from app.sends.accept.draft import AttachmentDraft, SendDraft
from app.sends.accept.groups import SendGroup, count_send, create_group, find_group
from app.sends.accept.opt_out import check_opt_out
from app.sends.accept.recipients import ResolvedRecipient, recipient_rows, resolve_recipients, shared_columns
from app.sends.accept.references import SendingAccount, find_references
from app.sends.accept.senders import Sender, find_email_sender, find_sms_sender
from app.services import Services
from app.tracking.secret_links import has_secret, no_link
from app.tracking.stored_links import link_rows


@dataclass(frozen=True, slots=True)
class AcceptedSend:
    """What was promised: an uuid per recipient in the order of the request, and the group that will tell."""

    uuids: tuple[str, ...]
    group_id: int


@dataclass(frozen=True, slots=True)
class TrackingOptions:
    """Whether the mails of a send tell that they are opened, and which links are followed."""

    opens: bool
    clicks: bool
    secrets: bool = False
    """Also of links that look as if they held a secret: only where the request itself asks."""

    @classmethod
    def of(cls, draft: SendDraft, account: SendingAccount) -> TrackingOptions:
        """As the request says, else as the account has it; a text message tells nothing."""
        if draft.type == "sms":
            return cls(opens=False, clicks=False)
        return cls(
            opens=account.track_opens if draft.track_opens is None else draft.track_opens,
            clicks=account.track_clicks if draft.track_clicks is None else draft.track_clicks,
            secrets=draft.track_clicks is True,
        )

    def links(self, content: Content) -> list[dict[str, Any]]:
        """The rows of the links that are tracked."""
        if not self.clicks:
            return []
        return link_rows(content.body_html, content.body_text, no_link if self.secrets else has_secret)


@dataclass(frozen=True, slots=True)
class ValidSend:
    """A send that breaks no rule, with all that it refers to."""

    draft: SendDraft
    content: Content
    sender: Sender
    group: SendGroup
    contact_list: ListSpec | None
    tracking: TrackingOptions


def accept(
    transaction: Transaction,
    services: Services,
    draft: SendDraft,
    *,
    account_id: int,
    saved_message: SavedMessage | None,
    request_id: str,
) -> AcceptedSend:
    """Writes the send and promises its delivery. `saved` is the message that it refers to, None for none or unknown.

    Raises `ServiceError` with every broken rule, the first being the one that stands first in the specification's
    tables (decisions: 11); then nothing may be kept of the transaction.
    """
    content = effective_content(draft, saved_message)
    check = SendCheck(transaction, account_id, draft, content, find_references(transaction, account_id, draft, content))
    valid = _check(check, saved_message, services.settings.max_groups)
    resolved = resolve_recipients(transaction, draft, valid.contact_list)
    accepted = _write(transaction, account_id, valid, resolved, request_id)
    transaction.after_commit(lambda: services.wake_ups.wake(SENDS))
    return accepted


def _check(check: SendCheck, saved_message: SavedMessage | None, most_groups: int) -> ValidSend:
    draft, errors = check.draft, check.errors
    if not check.references.account.owner_confirmed:
        errors.add("account_owner_unverified")  # (specification: Other behaviours, 1)
    group = find_group(check, most_groups)
    contact_list = _find_list(check)
    sender = None
    if draft.message_id is not None and saved_message is None:
        errors.add(
            "invalid_id", field="message_id", detail=f"message_id: there is no {named('message', draft.message_id)}."
        )
    elif draft.list_id is None or contact_list is not None:
        # What hangs on a message or a list that does not exist cannot be judged.
        check_content(draft, saved_message, check.content, errors)
        sender = _find_sender(check, contact_list)
    if errors.errors or sender is None or group is None:
        raise ServiceError.of(sorted(errors.errors, key=lambda error: RANK[error.code]))
    tracking = TrackingOptions.of(draft, check.references.account)
    return ValidSend(draft, check.content, sender, group, contact_list, tracking)


def _find_list(check: SendCheck) -> ListSpec | None:
    """The list of the recipients; it must have an address field for the type of the send."""
    list_id, type_ = check.draft.list_id, check.draft.type
    if list_id is None:
        return None
    contact_list = find_list(check.transaction, check.account_id, list_id)
    if contact_list is None:
        check.errors.add("invalid_id", field="list_id", detail=f"list_id: there is no {named('list', list_id)}.")
    elif not (contact_list.has_email if type_ == "email" else contact_list.has_mobile):
        field = "Email" if type_ == "email" else "Mobile Phone"
        detail = f"list_id: the list {contact_list.id} has no field of the type {field}."
        check.errors.add("list_address_field_missing", field="list_id", detail=detail)
    return contact_list


def _find_sender(check: SendCheck, contact_list: ListSpec | None) -> Sender | None:
    if check.draft.type == "email":
        return find_email_sender(check)
    sender = find_sms_sender(check)
    check_opt_out(check, sender, contact_list.stop_words if contact_list else ())
    return sender


def _write(
    transaction: Transaction, account_id: int, valid: ValidSend, resolved: list[ResolvedRecipient], request_id: str
) -> AcceptedSend:
    """The send and all that belongs to it. The counters of a group that exists come last: they are its bottleneck."""
    draft, group, accepted_time = valid.draft, valid.group, now()
    second, count = accepted_time.replace(microsecond=0), len(resolved)
    group_id = group.id or create_group(
        transaction, account_id, draft.type, group.name, recipients=count, accepted_time=second
    )
    rows, shared = recipient_rows(draft, resolved), shared_columns(draft, account_id, group_id, accepted_time)
    if any(one.attachments for one in draft.recipients):
        ids = draw_ids(transaction, Recipient, count)
        rows = [{"id": row_id, **row} for row_id, row in zip(ids, rows, strict=True)]
    send = _send_row(account_id, valid, group_id, request_id, second)
    links = valid.tracking.links(valid.content)
    families = [
        Family(Recipient, "send_id", rows, shared),
        Family(SendLink, "send_id", links, {"account_id": account_id}),
    ]
    send_id = insert_with_family(transaction, Send, send, families)
    files = _attachment_rows(account_id, send_id, draft, rows)
    insert_rows(transaction, Attachment, files)
    release_after(transaction, sum(len(file["content"]) for file in files))
    if group.id is not None:
        count_send(transaction, group.id, recipients=count, accepted_time=second)
    return AcceptedSend(tuple(row["uuid"] for row in rows), group_id)


def _send_row(
    account_id: int, valid: ValidSend, group_id: int, request_id: str, accepted_time: datetime
) -> dict[str, Any]:
    """The send with its content as it is now: a message that changes later does not change it."""
    draft, content, sender = valid.draft, valid.content, valid.sender
    return {
        "account_id": account_id,
        "request_id": request_id,
        "creation_time": accepted_time,
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
        "include_unsubscribed": draft.include_unsubscribed,
        "recipient_data_html_encoded": draft.recipient_data_html_encoded,
        "track_opens": valid.tracking.opens,
        "track_clicks": valid.tracking.clicks,
        "track_secrets": valid.tracking.secrets,
    }


def _attachment_rows(
    account_id: int, send_id: int, draft: SendDraft, recipients: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The files for everybody, then those of single recipients, each in the order of the request."""
    owned: list[tuple[int | None, AttachmentDraft]] = [(None, file) for file in draft.attachments]
    for row, one in zip(recipients, draft.recipients, strict=True):
        owned += [(row["id"], file) for file in one.attachments]
    return [
        {
            "account_id": account_id,
            "send_id": send_id,
            "recipient_id": recipient_id,
            "position": position,
            "name": file.name,
            "mime_type": file.mime_type,
            "content_id": new_content_id(),
            "content": file.content,
        }
        for position, (recipient_id, file) in enumerate(owned)
    ]
