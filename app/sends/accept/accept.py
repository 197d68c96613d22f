"""The use case behind `POST /v1/transactional-sends`: checks a send and writes it.

It has two steps. `read_request` runs before the writing transaction: it decides the type of the send, checks the scope
of the key and validates the body. `accept` runs in the writing transaction, with a fixed number of statements: a send
to 100 recipients takes as many as a send to one. It looks up what the send refers to, collects every violation of a
rule, and writes only if there is none. Nothing is delivered here: the recipients enter the send queue, and a worker is
woken after the commit (docs/architecture.md#a-send).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from app.accounts.auth import Principal
from app.db.database import Transaction
from app.errors import ServiceError, in_catalogue_order
from app.ids import describe, shown_id, sought_id
from app.infrastructure.redis_client import SENDS
from app.infrastructure.tracing import span
from app.lists.fields import ListSpec
from app.routing.table import allowed_transport
from app.sends.accept.content import Content, SavedMessage, check_content, effective_content, find_saved_message
from app.sends.accept.draft import Limits, MessageType, SendDraft
from app.sends.accept.references import SendCheck, SendGroup, find_group, find_references
from app.sends.accept.senders import Sender, check_opt_out, find_email_sender, find_sms_sender
from app.sends.accept.write import (
    AcceptedSend,
    TrackingOptions,
    ValidSend,
    create_contacts,
    encrypted_values,
    recipient_rows,
    write_send,
)
from app.services import Services

LoadDraft = Callable[[Mapping[str, Any], MessageType | None, Limits], SendDraft]
"""Validates a body for a type and returns the draft. Raises `ServiceError` with every error of the body."""


@dataclass(frozen=True, slots=True)
class SendRequest:
    """A request to send whose body is valid. `saved_message` is None if it refers to none, or to an unknown one;
    `content` is that of the request, with the message's as default."""

    account_id: int
    request_id: str
    draft: SendDraft
    saved_message: SavedMessage | None
    content: Content


def read_request(
    services: Services, principal: Principal, body: Mapping[str, Any], load_draft: LoadDraft, request_id: str
) -> SendRequest:
    """Validates the body of a send. Raises `ServiceError` with every error that needs no lookup except that of the
    message.

    The saved message is read first, because its type decides which rules the body must meet. It is read in a separate
    session, so that no writing transaction is open while a body is validated: SQLite has one writer at a time.
    """
    saved_message = _find_saved_message(services, principal.account_id, body.get("message_id"))
    type_ = saved_message.type if saved_message else _requested_type(body)
    _check_scope(principal, type_)
    limits = Limits(services.settings.max_attachments, services.settings.max_attachment_bytes)
    draft = load_draft(body, type_, limits)
    return SendRequest(principal.account_id, request_id, draft, saved_message, effective_content(draft, saved_message))


def _find_saved_message(services: Services, account_id: int, message_id: object) -> SavedMessage | None:
    """The message that the unchecked `message_id` of a body names; None if it is not the id of a message."""
    if not isinstance(message_id, int) or isinstance(message_id, bool) or not sought_id(message_id):
        return None
    with services.database.read() as session:
        return find_saved_message(session, account_id, message_id)


def _requested_type(body: Mapping[str, Any]) -> MessageType | None:
    """The type in the body; None if it is missing or invalid."""
    match body.get("type"):
        case "email":
            return "email"
        case "sms":
            return "sms"
    return None


def _check_scope(principal: Principal, type_: MessageType | None) -> None:
    """The endpoint accepts keys with either scope; sending requires that of the type (docs/sending.md#attributes)."""
    if type_ is not None and f"send.{type_}" not in principal.scopes:
        raise ServiceError("permission_denied")


def accept(transaction: Transaction, services: Services, request: SendRequest) -> AcceptedSend:
    """Writes the send, and wakes a worker after the commit.

    Raises `ServiceError` with every violation, in the order of the catalogue (docs/send-errors.md#order-of-errors); the
    transaction must then be rolled back.
    """
    with span("accept", tms__recipients=len(request.draft.recipients)):
        check = check_references(transaction, request.account_id, request.draft, request.content)
        valid = check_rules(check, request.saved_message, find_group(check, services.settings.max_groups))
        named = create_contacts(transaction, valid.draft, valid.contact_list, check.references.contacts)
        rows = recipient_rows(valid.draft, named)
        secret_values = encrypted_values(services.settings.secret_key, valid.draft, rows)
        accepted = write_send(
            transaction, request.account_id, request.request_id, valid, rows, secret_values=secret_values
        )
    transaction.after_commit(lambda: services.wake_ups.wake(SENDS))
    return accepted


def check_references(session: Session, account_id: int, draft: SendDraft, content: Content) -> SendCheck:
    """The check of a send with what it refers to, and of its account. The list has its stored id from here on."""
    references = find_references(session, account_id, draft, content)
    if references.contact_list is not None:
        draft = replace(draft, list_id=references.contact_list.id)
    check = SendCheck(session, account_id, draft, content, references)
    if not references.account.owner_confirmed:
        check.errors.add("account_owner_unverified")  # (docs/sending.md#senders)
    return check


def check_rules(check: SendCheck, saved_message: SavedMessage | None, group: SendGroup | None) -> ValidSend:
    """The valid send, with the group that collects its results. Raises `ServiceError` with every violation."""
    draft, content, references = check.draft, check.content, check.references
    contact_list = _find_list(check)
    sender = None
    if draft.message_id is not None and saved_message is None:
        detail = f"message_id: there is no {describe('message', draft.message_id)}."
        check.errors.add("invalid_id", field="message_id", detail=detail)
    elif draft.list_id is None or contact_list is not None:
        # Content and sender depend on the message and the list: they are checked only if both exist.
        check_content(draft, saved_message, content, check.errors)
        sender = _find_sender(check, contact_list)
    _check_transport(check)
    if check.errors.errors or sender is None or group is None:
        raise ServiceError.of(in_catalogue_order(check.errors.errors))
    if saved_message is not None:
        draft = replace(draft, message_id=saved_message.id)
    tracking = TrackingOptions.of(draft, references.account)
    priority = draft.priority or references.account.priority(draft.type)
    return ValidSend(
        draft, content, sender, group, contact_list, tracking, priority, is_test=bool(references.account.is_test)
    )


def _check_transport(check: SendCheck) -> None:
    """Checks that the account may name the transport of the send (docs/sending.md#choosing-a-transport). It takes one
    statement, none for a send that names no transport."""
    name, type_ = check.draft.transport, check.draft.type
    if name is not None and check.rows(allowed_transport(check.account_id, name, type_)).first() is None:
        detail = f"transport: the account cannot use the transport {name!r} for {type_} sends."
        check.errors.add("invalid_id", field="transport", detail=detail)


def _find_list(check: SendCheck) -> ListSpec | None:
    """The list of the recipients; it must have an address field for the type of the send."""
    list_id, type_ = check.draft.list_id, check.draft.type
    if list_id is None:
        return None
    contact_list = check.references.contact_list
    if contact_list is None:
        check.errors.add("invalid_id", field="list_id", detail=f"list_id: there is no {describe('list', list_id)}.")
    elif not (contact_list.has_email if type_ == "email" else contact_list.has_mobile):
        field = "Email" if type_ == "email" else "Mobile Phone"
        detail = f"list_id: the list {shown_id(contact_list.id)} has no field of the type {field}."
        check.errors.add("list_address_field_missing", field="list_id", detail=detail)
    return contact_list


def _find_sender(check: SendCheck, contact_list: ListSpec | None) -> Sender | None:
    if check.draft.type == "email":
        return find_email_sender(check)
    sender = find_sms_sender(check)
    check_opt_out(check, sender, contact_list.stop_words if contact_list else ())
    return sender
