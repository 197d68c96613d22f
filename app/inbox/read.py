"""Reading captured messages, and waiting for one."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from app.addresses import address_forms, email_key
from app.db.database import Database
from app.db.models import CapturedMessage
from app.errors import ServiceError

LOOK_INTERVAL = 0.2
"""Seconds between two looks for a message that is waited for."""


@dataclass(frozen=True, slots=True)
class InboxFilter:
    """Which messages of a test account: those to an address, newer than an id."""

    account_id: int
    address: str | None = None
    after: int = 0

    def select(self) -> Select[CapturedMessage]:
        """The statement, without an order."""
        statement = select(CapturedMessage).where(
            CapturedMessage.account_id == self.account_id, CapturedMessage.id > self.after
        )
        if self.address is None:
            return statement
        return statement.where(CapturedMessage.address.in_(address_forms(email_key(self.address))))


def list_captured(session: Session, filter_: InboxFilter, limit: int) -> list[CapturedMessage]:
    """The captured messages that the filter selects, the newest first."""
    return list(session.scalars(filter_.select().order_by(CapturedMessage.id.desc()).limit(limit)))


def find_captured(session: Session, account_id: int, message_id: int) -> CapturedMessage:
    """One message. Raises `ServiceError` (`invalid_id`)."""
    message = session.scalars(InboxFilter(account_id).select().where(CapturedMessage.id == message_id)).first()
    if message is None:
        raise ServiceError("invalid_id", field="id", detail=f"the inbox has no message {message_id}")
    return message


def wait_for_captured(database: Database, filter_: InboxFilter, timeout: float) -> CapturedMessage | None:
    """The first message that matches, as soon as there is one; None after the time-out in seconds."""
    end = time.monotonic() + timeout
    while True:
        with database.read() as session:
            message = session.scalars(filter_.select().order_by(CapturedMessage.id).limit(1)).first()
            if message is not None:
                session.expunge(message)
                return message
        remaining = end - time.monotonic()
        if remaining <= 0:
            return None
        time.sleep(min(LOOK_INTERVAL, remaining))
