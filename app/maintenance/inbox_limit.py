"""The maximum of captured messages of an account (docs/testing.md#inbox): the oldest go."""

from __future__ import annotations

import logging
from typing import Any

from sqlalchemy import CursorResult, delete, select

from app.db.models import Account, CapturedMessage
from app.infrastructure import signs_of_life
from app.services import Services

logger = logging.getLogger(__name__)

CHUNK = 1000
"""Messages deleted in one transaction."""


def delete_beyond_limit(services: Services) -> None:
    """Deletes what each test account has beyond TEST_INBOX_MESSAGES."""
    with services.database.read() as session:
        accounts = session.scalars(select(Account.id).where(Account.test_of.is_not(None))).all()
    total = 0
    for account_id in accounts:
        last = _last_beyond_limit(services, account_id)
        while last is not None and not services.stopping.is_set():
            signs_of_life.report()
            deleted = _delete_chunk(services, account_id, last)
            total += deleted
            if deleted < CHUNK:
                break
    if total:
        logger.info("deleted the oldest captured messages", extra={"rows": total})


def _last_beyond_limit(services: Services, account_id: int) -> int | None:
    """The newest message that goes; None if the account has no more than it may have."""
    of_account = select(CapturedMessage.id).where(CapturedMessage.account_id == account_id)
    newest = of_account.order_by(CapturedMessage.id.desc())
    with services.database.read() as session:
        return session.scalars(newest.offset(services.settings.test_inbox_messages).limit(1)).first()


def _delete_chunk(services: Services, account_id: int, last: int) -> int:
    of_account = select(CapturedMessage.id).where(CapturedMessage.account_id == account_id, CapturedMessage.id <= last)
    oldest = of_account.order_by(CapturedMessage.id).limit(CHUNK)
    with services.database.write() as transaction:
        statement = delete(CapturedMessage).where(CapturedMessage.id.in_(oldest))
        result: CursorResult[Any] = transaction.connection().execute(statement)
        return result.rowcount
