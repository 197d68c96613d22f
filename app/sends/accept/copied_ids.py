"""The ids in the body of a send with a test key, which names copies of lists and messages by those of the originals
(docs/testing.md#copies)."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy.orm import Session

from app.accounts.auth import Principal
from app.db.copied_ids import stored_ids
from app.sends.accept.draft import SendDraft
from app.services import Services


def stored_message_id(session: Session, principal: Principal, message_id: object) -> object:
    """The `message_id` of a body, which is not checked yet, as the database has it."""
    if not principal.is_test or not isinstance(message_id, int) or isinstance(message_id, bool):
        return message_id
    return stored_ids(session, principal.account_id, message_id=message_id)[1]


def with_stored_ids(services: Services, principal: Principal, draft: SendDraft) -> SendDraft:
    """The draft with the ids that the database has; for a test key one select, for others none."""
    if not principal.is_test:
        return draft
    named = {"list_id": draft.list_id, "message_id": draft.message_id}
    with services.database.read() as session:
        list_id, message_id = stored_ids(session, principal.account_id, **named)
    return replace(draft, list_id=list_id, message_id=message_id)
