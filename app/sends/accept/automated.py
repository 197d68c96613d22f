"""The send of an automation's step: what a client would send, with the rules, the content and the counts of any send,
but the step in place of a group (docs/automation-runs.md#what-a-step-sends)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.addresses import ADDRESS_KIND_BY_TYPE
from app.db.bulk import draw_ids
from app.db.database import Transaction
from app.db.models import Recipient
from app.errors import ServiceError
from app.ids import describe, new_uuid, shown_id
from app.sends.accept.accept import check_references, check_rules
from app.sends.accept.content import effective_content, find_saved_message
from app.sends.accept.draft import DEFAULTS, MessageType, RecipientDraft, SendDraft
from app.sends.accept.references import SendGroup
from app.sends.accept.write import ValidSend, write_send
from app.sends.limits import MAX_RECIPIENTS


@dataclass(frozen=True, slots=True)
class StepSend:
    """A step that sends a stored message to contacts of a list."""

    account_id: int
    automation_id: int
    step_id: int
    list_id: int
    message_id: int


def accept_step(transaction: Transaction, send: StepSend, contact_ids: Sequence[int]) -> list[int]:
    """Writes the message for these contacts, as it is now; returns the ids of the recipients, in their order.

    Raises `ServiceError` with every violation, like `accept`; nothing is written then. A send has as many recipients as
    one of a client at most, so that its limits are the same.
    """
    valid = _check(transaction, send)
    request_id = f"automation-{send.automation_id}-{send.step_id}"
    ids = draw_ids(transaction, Recipient, len(contact_ids))
    for first in range(0, len(ids), MAX_RECIPIENTS):
        some = contact_ids[first : first + MAX_RECIPIENTS]
        recipients = tuple(RecipientDraft(contact_id, None, None, {}) for contact_id in some)
        rows = list(_rows(valid.draft.type, ids[first : first + MAX_RECIPIENTS], some))
        part = replace(valid, draft=replace(valid.draft, recipients=recipients))
        write_send(transaction, send.account_id, request_id, part, rows)
    return ids


def _check(transaction: Transaction, send: StepSend) -> ValidSend:
    message = find_saved_message(transaction, send.account_id, send.message_id)
    if message is None:
        raise ServiceError("invalid_id", detail=f"there is no {describe('message', send.message_id)}")
    draft = _draft(message.type, send)
    check = check_references(transaction, send.account_id, draft, effective_content(draft, message))
    valid = check_rules(check, message, SendGroup(send.step_id, ""))
    return replace(valid, automation_id=send.automation_id)


def _draft(type_: MessageType, send: StepSend) -> SendDraft:
    """What a client would write: the message, the list, and nothing else."""
    return SendDraft(
        **{
            **DEFAULTS,
            "type": type_,
            "list_id": shown_id(send.list_id),
            "group_id": send.step_id,
            "message_id": send.message_id,
        }
    )


def _rows(type_: MessageType, ids: Sequence[int], contact_ids: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The columns that differ between the recipients. They have no address yet: delivery takes that of the contact."""
    for row_id, contact_id in zip(ids, contact_ids, strict=True):
        yield {
            "id": row_id,
            "uuid": new_uuid(),
            "contact_id": contact_id,
            ADDRESS_KIND_BY_TYPE[type_]: None,
            "reason": None,
            "values": {},
        }
