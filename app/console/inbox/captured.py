"""The messages that test keys have sent: searching them, and one of them (docs/console.md#inbox)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.accounts.sessions import SignedIn
from app.accounts.testing import test_account_of
from app.console.queries import Pairs, of_address, older_query
from app.db.models import Account, CapturedMessage
from app.errors import ServiceError
from app.ids import UUID
from app.inbox.shown import INBOX, page_captured
from app.query.cursors import CursorScope
from app.query.grammar import parse_collection
from app.secret_keys import SecretKeys

PATH = "/console/inbox"


def sought(text: str) -> tuple[str, str]:
    """The filter of a text that somebody looks for: a uuid, an address or a number, else a whole subject."""
    if UUID.fullmatch(text):
        return "uuid", text
    name, value = of_address(text)
    return ("address", value) if name == "email" or value.isdigit() else ("subject", text)


def inbox_of(session: Session, account: Account) -> Account | None:
    """The account whose messages are captured; None if the account has none yet."""
    return test_account_of(session, account)


def search(
    session: Session, secret_keys: SecretKeys, account_id: int, pairs: Pairs, limit: int
) -> tuple[list[dict[str, Any]], Pairs | None]:
    """The captured messages of the test account that match, the newest first, and the query of older ones. Raises the
    errors of the query."""
    cursors = CursorScope(secret_keys, account_id, PATH)
    query = replace(parse_collection(pairs, INBOX.resource, cursors), limit=limit)
    page = page_captured(session, account_id, query)
    return page.items, older_query(cursors, list(query.pairs), page.ends.next if page.ends.has_next else None)


def find_message(session: Session, who: SignedIn, message_id: int) -> CapturedMessage:
    """A captured message that somebody may see. Raises `not_found`."""
    wanted = select(CapturedMessage).where(CapturedMessage.id == message_id)
    if who.account_id is not None:
        of_account = or_(Account.id == who.account_id, Account.test_of == who.account_id)
        wanted = wanted.join(Account, Account.id == CapturedMessage.account_id).where(of_account)
    found = session.scalars(wanted).first() if who.sees_tests else None
    if found is None:
        raise ServiceError("not_found", detail=f"The inbox has no message {message_id}.")
    return found
