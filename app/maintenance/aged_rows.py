"""Rows of which an account may have a retention of its own (docs/operations.md#retention): captured messages, the log
of webhook deliveries, and audit entries.

While no account has one, rows are deleted by their age alone. Otherwise each account, or webhook, is looked at by
itself, by an index in which its oldest rows come first: so rows that one account keeps for longer are not read again
with each look for those of others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from app.audit.seals import keep_checkpoints
from app.clock import now
from app.db.expressions import in_json
from app.db.models import Account, AuditEntry, Base, CapturedMessage, Webhook, WebhookAttempt, table_of
from app.infrastructure import signs_of_life
from app.services import Services
from app.settings import Settings, parse_retention

CHUNK = 1000
"""Rows deleted in one transaction: other writers wait for that, not for the whole of a large table."""


Owner = tuple[ColumnElement[bool] | None, int | None]
"""The condition on the rows of an account or a webhook, and the account."""
NO_OWNER: Owner = None, None
"""All rows, whosever they are."""


class Aged(NamedTuple):
    """Rows that age: `order` is an index that begins with the account or the webhook whose rows they are, and in which
    the oldest come first."""

    model: type[Base]
    time: Any
    order: tuple[Any, ...]
    setting: str
    """The name of the setting, and of the account's column."""

    def default(self, settings: Settings) -> timedelta | None:
        """The retention of an account that has none of its own; None: for ever."""
        found: timedelta | None = getattr(settings, self.setting)
        return found

    def own(self, session: Session) -> dict[int, timedelta | None]:
        """The retentions of the accounts that have one of their own."""
        column = getattr(Account, self.setting)
        rows = session.execute(select(Account.id, column).where(column.is_not(None)))
        return {account_id: parse_retention(text) for account_id, text in rows}


CAPTURED = Aged(
    CapturedMessage,
    CapturedMessage.captured_time,
    (CapturedMessage.account_id, CapturedMessage.captured_time, CapturedMessage.id),
    "retain_captured",
)
ATTEMPTS = Aged(WebhookAttempt, WebhookAttempt.time, (WebhookAttempt.webhook_id, WebhookAttempt.id), "retain_logs")
AUDIT = Aged(AuditEntry, AuditEntry.time, (AuditEntry.account_id, AuditEntry.time, AuditEntry.id), "retain_audit")


def delete_aged(services: Services, aged: Aged) -> int:
    """Deletes the rows past the retention of their account, in chunks; returns their number."""
    default, moment, total = aged.default(services.settings), now(), 0
    with services.database.read() as session:
        own = aged.own(session)
        owners = list(_owners(session, aged)) if own else [NO_OWNER]
    for is_owner, account_id in owners:
        retention = default if account_id is None else own.get(account_id, default)
        if retention is not None:
            total += _delete(services, aged, is_owner, moment - retention)
    return total


def _owners(session: Session, aged: Aged) -> Iterator[Owner]:
    """Each account or webhook: also of accounts that were deleted, and of none."""
    owner = aged.order[0]
    if aged is ATTEMPTS:
        for webhook_id, account_id in session.execute(select(Webhook.id, Webhook.account_id).order_by(Webhook.id)):
            yield owner == webhook_id, account_id
        return
    if table_of(aged.model).c.account_id.nullable:
        yield owner.is_(None), None
    found = session.scalar(select(func.min(owner)))
    while found is not None:
        yield owner == found, found
        found = session.scalar(select(func.min(owner)).where(owner > found))


def _delete(services: Services, aged: Aged, is_owner: ColumnElement[bool] | None, limit: datetime) -> int:
    total = 0
    while not services.stopping.is_set():
        signs_of_life.report()
        with services.database.read() as session:
            ids = _oldest(session, aged, is_owner, limit)
        if not ids:
            break
        table = table_of(aged.model)
        with services.database.write() as transaction:
            if aged is AUDIT:
                keep_checkpoints(transaction, services.settings.secret_keys, ids)
            transaction.connection().execute(delete(table).where(in_json(table.c.id, ids)))
        total += len(ids)
    return total


def _oldest(session: Session, aged: Aged, is_owner: ColumnElement[bool] | None, limit: datetime) -> Sequence[int]:
    """Of the next rows those that are old: where none is, the ones behind them are not read."""
    row_id = table_of(aged.model).c.id
    if is_owner is None:
        return session.scalars(select(row_id).where(aged.time < limit).order_by(aged.time).limit(CHUNK)).all()
    first = select(row_id, aged.time.label("time")).where(is_owner).order_by(*aged.order).limit(CHUNK).subquery()
    return session.scalars(select(first.c.id).where(first.c.time < limit)).all()
