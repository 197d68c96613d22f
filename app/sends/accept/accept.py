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
from app.sends.accept.content import Content, SavedMessage, check_content, merged
from app.sends.accept.draft import AttachmentDraft, SendDraft
from app.sends.accept.groups import GroupOfSend, count_send, create_group, find_group
from app.sends.accept.opt_out import check_opt_out
from app.sends.accept.recipients import Person, find_people, recipient_rows, shared_columns
from app.sends.accept.references import SendingAccount, look_up
from app.sends.accept.senders import Sender, email_sender, sms_sender
from app.services import Services
from app.tracking.secret_links import has_secret, no_link
from app.tracking.stored_links import link_rows


@dataclass(frozen=True, slots=True)
class Accepted:
    """What was promised: an uuid per recipient in the order of the request, and the group that will tell."""

    uuids: tuple[str, ...]
    group_id: int


@dataclass(frozen=True, slots=True)
class Tracking:
    """Whether the mails of a send tell that they are opened, and which links are followed."""

    opens: bool
    clicks: bool
    secrets: bool = False
    """Also of links that look as if they held a secret: only where the request itself asks."""

    @classmethod
    def of(cls, draft: SendDraft, account: SendingAccount) -> Tracking:
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
class Checked:
    """A send that breaks no rule, with all that it refers to."""

    draft: SendDraft
    content: Content
    sender: Sender
    group: GroupOfSend
    lst: ListSpec | None
    tracking: Tracking


def accept(
    transaction: Transaction,
    services: Services,
    draft: SendDraft,
    *,
    account_id: int,
    saved: SavedMessage | None,
    request_id: str,
) -> Accepted:
    """Writes the send and promises its delivery. `saved` is the message that it refers to, None for none or unknown.

    Raises `ServiceError` with every broken rule, the first being the one that stands first in the specification's
    tables (decisions: 11); then nothing may be kept of the transaction.
    """
    content = merged(draft, saved)
    inquiry = SendCheck(transaction, account_id, draft, content, look_up(transaction, account_id, draft, content))
    checked = _check(inquiry, saved, services.settings.max_groups)
    people = find_people(transaction, draft, checked.lst)
    accepted = _write(transaction, account_id, checked, people, request_id)
    transaction.after_commit(lambda: services.wake_ups.wake(SENDS))
    return accepted


def _check(inquiry: SendCheck, saved: SavedMessage | None, most_groups: int) -> Checked:
    draft, errors = inquiry.draft, inquiry.errors
    if not inquiry.standing.account.owner_confirmed:
        errors.add("account_owner_unverified")  # (specification: Other behaviours, 1)
    group = find_group(inquiry, most_groups)
    lst = _find_list(inquiry)
    sender = None
    if draft.message_id is not None and saved is None:
        errors.add(
            "invalid_id", field="message_id", detail=f"message_id: there is no {named('message', draft.message_id)}."
        )
    elif draft.list_id is None or lst is not None:
        # What hangs on a message or a list that does not exist cannot be judged.
        check_content(draft, saved, inquiry.content, errors)
        sender = _find_sender(inquiry, lst)
    if errors.errors or sender is None or group is None:
        raise ServiceError.of(sorted(errors.errors, key=lambda error: RANK[error.code]))
    return Checked(draft, inquiry.content, sender, group, lst, Tracking.of(draft, inquiry.standing.account))


def _find_list(inquiry: SendCheck) -> ListSpec | None:
    """The list of the recipients; it must have an address field for the type of the send."""
    list_id, type_ = inquiry.draft.list_id, inquiry.draft.type
    if list_id is None:
        return None
    lst = find_list(inquiry.transaction, inquiry.account_id, list_id)
    if lst is None:
        inquiry.errors.add("invalid_id", field="list_id", detail=f"list_id: there is no {named('list', list_id)}.")
    elif not (lst.has_email if type_ == "email" else lst.has_mobile):
        field = "Email" if type_ == "email" else "Mobile Phone"
        detail = f"list_id: the list {lst.id} has no field of the type {field}."
        inquiry.errors.add("list_address_field_missing", field="list_id", detail=detail)
    return lst


def _find_sender(inquiry: SendCheck, lst: ListSpec | None) -> Sender | None:
    if inquiry.draft.type == "email":
        return email_sender(inquiry)
    sender = sms_sender(inquiry)
    check_opt_out(inquiry, sender, lst.stop_words if lst else ())
    return sender


def _write(
    transaction: Transaction, account_id: int, checked: Checked, people: list[Person], request_id: str
) -> Accepted:
    """The send and all that belongs to it. The counters of a group that exists come last: they are its bottleneck."""
    draft, group, moment = checked.draft, checked.group, now()
    second, count = moment.replace(microsecond=0), len(people)
    group_id = group.id or create_group(
        transaction, account_id, draft.type, group.name, recipients=count, moment=second
    )
    rows, shared = recipient_rows(draft, people), shared_columns(draft, account_id, group_id, moment)
    if any(one.attachments for one in draft.recipients):
        ids = draw_ids(transaction, Recipient, count)
        rows = [{"id": row_id, **row} for row_id, row in zip(ids, rows, strict=True)]
    send = _send_row(account_id, checked, group_id, request_id, second)
    links = checked.tracking.links(checked.content)
    families = [
        Family(Recipient, "send_id", rows, shared),
        Family(SendLink, "send_id", links, {"account_id": account_id}),
    ]
    send_id = insert_with_family(transaction, Send, send, families)
    files = _attachment_rows(account_id, send_id, draft, rows)
    insert_rows(transaction, Attachment, files)
    release_after(transaction, sum(len(file["content"]) for file in files))
    if group.id is not None:
        count_send(transaction, group.id, recipients=count, moment=second)
    return Accepted(tuple(row["uuid"] for row in rows), group_id)


def _send_row(account_id: int, checked: Checked, group_id: int, request_id: str, moment: datetime) -> dict[str, Any]:
    """The send with its content as it is now: a message that changes later does not change it."""
    draft, content, sender = checked.draft, checked.content, checked.sender
    return {
        "account_id": account_id,
        "request_id": request_id,
        "creation_time": moment,
        "type": draft.type,
        "list_id": draft.list_id,
        "group_id": group_id,
        "group_name": checked.group.name,
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
        "track_opens": checked.tracking.opens,
        "track_clicks": checked.tracking.clicks,
        "track_secrets": checked.tracking.secrets,
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
