"""What a test key names: the copies of lists and messages, by the ids of the originals (docs/testing.md#copies)."""

from __future__ import annotations

from sqlalchemy.orm import Session

from app.accounts.auth import Principal
from app.db.copied_ids import stored_ids


def stored_list_id(session: Session, principal: Principal, list_id: int) -> int:
    """The id in the database of the list with this id in a path; for a test key one select, for others none."""
    found = stored_ids(session, principal.account_id, list_id=list_id)[0] if principal.is_test else None
    return found or list_id


def stored_message_id(session: Session, principal: Principal, message_id: int) -> int:
    """The id in the database of the message with this id in a path; for a test key one select, for others none."""
    found = stored_ids(session, principal.account_id, message_id=message_id)[1] if principal.is_test else None
    return found or message_id
