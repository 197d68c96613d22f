"""The messages that test keys have sent: what a search of them looks for, and one of them (docs/console.md#inbox)."""

from __future__ import annotations

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.accounts.sessions import SignedIn
from app.console.queries import of_address
from app.db.models import Account, CapturedMessage
from app.errors import ServiceError
from app.ids import UUID

PATH = "/console/inbox"


def sought(text: str) -> tuple[str, str]:
    """The filter of a text that somebody looks for: a uuid, an address or a number, else a whole subject."""
    if UUID.fullmatch(text):
        return "uuid", text
    name, value = of_address(text)
    return ("address", value) if name == "email" or value.isdigit() else ("subject", text)


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
