"""Sweeps find work that no wake-up announced, and clean-up deletes rows past their retention.

A wake-up can be lost with Redis, and there is none for a row that becomes due by time or whose worker died. The
scheduler (jobs/schedule.py) runs the sweeps twice a second, so each is one statement that an index answers, however
many rows there are.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CursorResult,
    Select,
    and_,
    delete,
    func,
    literal_column,
    select,
    tuple_,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.accounts.signing_keys import RETIRED_KEY_LIFETIME
from app.audit.seals import keep_checkpoints
from app.automations.run_states import HAS_ENDED
from app.clock import now
from app.db.due import FULL_SHARE, DueAccounts
from app.db.expressions import in_json
from app.db.models import (
    Account,
    AuditEntry,
    AutomationRun,
    Base,
    BulkAction,
    CapturedMessage,
    ConsoleLink,
    ConsoleSession,
    ConsoleSignIn,
    ContactImport,
    DkimKey,
    DomainBackoff,
    DomainReport,
    HookToken,
    HourlyCount,
    IdempotencyRecord,
    InboundRecord,
    QueueEntry,
    Recipient,
    RelayRefusal,
    TagCount,
    TriggerFiring,
    Webhook,
    WebhookAttempt,
    table_of,
)
from app.db.queue import RUN_QUEUE, SEND_QUEUE
from app.events.rotation import rotate_events
from app.inbound.hooks.mailgun import TOKEN_LIFETIME
from app.infrastructure.metrics import SWEEP_SECONDS, SWEEP_TIME, SWEEPS
from app.maintenance import history
from app.maintenance.stored_addresses import compare_stored_addresses
from app.recipients.conditions import IS_READY, entry_in_state
from app.recipients.row import delete_queue_entries
from app.recipients.states import RecipientState
from app.runs.pause import has_held_to_release
from app.sends.delivery.returning import has_returning
from app.sends.outcomes.recovery import ExpiredLeases, has_uncertain_due
from app.sends.queue_begin import QueueBegin, known_begin
from app.services import Services
from app.settings import Settings, parse_retention

logger = logging.getLogger(__name__)


# Rows of which an account may have a retention of its own (docs/retention.md): captured messages, the log of
# webhook deliveries, and audit entries.
#
# While no account has one, rows are deleted by their age alone. Otherwise each account, or webhook, is looked at by
# itself, by an index in which its oldest rows come first: so rows that one account keeps for longer are not read again
# with each look for those of others.

CHUNK = 1000
"""Rows deleted in one transaction: other writers wait for that, not for the whole of a large table."""


Owner = tuple[ColumnElement[bool] | None, int | None]
"""The condition on the rows of an account or a webhook, and the account."""
NO_OWNER: Owner = None, None
"""All rows, whosever they are."""


class AgingRows(NamedTuple):
    """Rows that age: `order` is an index that begins with the account or the webhook whose rows they are, and in which
    the oldest come first."""

    model: type[Base]
    time: Any
    order: tuple[Any, ...]
    setting: str
    """The name of the setting, and of the account's column."""

    def default(self, settings: Settings) -> timedelta | None:
        """The retention of an account that has none of its own; None: for ever."""
        retention: timedelta | None = getattr(settings, self.setting)
        return retention

    def periods_of_accounts(self, session: Session) -> dict[int, timedelta | None]:
        """The retentions of the accounts that have one of their own."""
        column = getattr(Account, self.setting)
        rows = session.execute(select(Account.id, column).where(column.is_not(None)))
        return {account_id: parse_retention(text) for account_id, text in rows}


CAPTURED_MESSAGES = AgingRows(
    CapturedMessage,
    CapturedMessage.captured_time,
    (CapturedMessage.account_id, CapturedMessage.captured_time, CapturedMessage.id),
    "retain_captured",
)
WEBHOOK_ATTEMPTS = AgingRows(
    WebhookAttempt, WebhookAttempt.time, (WebhookAttempt.webhook_id, WebhookAttempt.id), "retain_logs"
)
AUDIT_ENTRIES = AgingRows(
    AuditEntry, AuditEntry.time, (AuditEntry.account_id, AuditEntry.time, AuditEntry.id), "retain_audit"
)


def delete_aged(services: Services, aged: AgingRows) -> None:
    """Deletes the rows past the retention of their account, in chunks."""
    default, moment, total = aged.default(services.settings), now(), 0
    with services.database.read() as session:
        periods = aged.periods_of_accounts(session)
        owners = list(_owners(session, aged)) if periods else [NO_OWNER]
    for is_owner, account_id in owners:
        retention = default if account_id is None else periods.get(account_id, default)
        if retention is not None:
            total += _delete(services, aged, is_owner, moment - retention)
    if total:
        logger.info("cleaned %s", aged.model.__tablename__, extra={"rows": total})


def _owners(session: Session, aged: AgingRows) -> Iterator[Owner]:
    """Each account or webhook: also of accounts that were deleted, and of none."""
    owner = aged.order[0]
    if aged is WEBHOOK_ATTEMPTS:
        for webhook_id, account_id in session.execute(select(Webhook.id, Webhook.account_id).order_by(Webhook.id)):
            yield owner == webhook_id, account_id
        return
    if table_of(aged.model).c.account_id.nullable:
        yield owner.is_(None), None
    owner_id = session.scalar(select(func.min(owner)))
    while owner_id is not None:
        yield owner == owner_id, owner_id
        owner_id = session.scalar(select(func.min(owner)).where(owner > owner_id))


def _delete(services: Services, aged: AgingRows, is_owner: ColumnElement[bool] | None, limit: datetime) -> int:
    total = 0
    while not services.stopping.is_set():
        with services.database.read() as session:
            ids = _oldest(session, aged, is_owner, limit)
        if not ids:
            break
        table = table_of(aged.model)
        with services.database.write() as transaction:
            if aged is AUDIT_ENTRIES:
                keep_checkpoints(transaction, services.settings.secret_keys, ids)
            transaction.connection().execute(delete(table).where(in_json(table.c.id, ids)))
        total += len(ids)
    return total


def _oldest(session: Session, aged: AgingRows, is_owner: ColumnElement[bool] | None, limit: datetime) -> Sequence[int]:
    """The ids of those of the next rows that are old: where none is, the ones behind them are not read."""
    row_id = table_of(aged.model).c.id
    if is_owner is None:
        return session.scalars(select(row_id).where(aged.time < limit).order_by(aged.time).limit(CHUNK)).all()
    first = select(row_id, aged.time.label("time")).where(is_owner).order_by(*aged.order).limit(CHUNK).subquery()
    return session.scalars(select(first.c.id).where(first.c.time < limit)).all()


# The maximum of captured messages of an account (docs/testing.md#inbox): the oldest go.


def delete_beyond_limit(services: Services) -> None:
    """Deletes what each test account has beyond TEST_INBOX_MESSAGES."""
    with services.database.read() as session:
        accounts = session.scalars(select(Account.id).where(Account.test_of.is_not(None))).all()
    total = 0
    for account_id in accounts:
        last = _last_beyond_limit(services, account_id)
        if last is not None:
            is_beyond = and_(CapturedMessage.account_id == account_id, CapturedMessage.id <= last)
            total += _delete_in_chunks(services, CapturedMessage, CapturedMessage.id, is_beyond)
    if total:
        logger.info("deleted the oldest captured messages", extra={"rows": total})


def _last_beyond_limit(services: Services, account_id: int) -> int | None:
    """The newest message that goes; None if the account has no more than it may have."""
    captured_ids = select(CapturedMessage.id).where(CapturedMessage.account_id == account_id)
    newest = captured_ids.order_by(CapturedMessage.id.desc())
    with services.database.read() as session:
        return session.scalars(newest.offset(services.settings.test_inbox_messages).limit(1)).first()


BACKOFF_RETENTION = timedelta(days=1)
"""A back-off is kept this long after its end, so that the next one is longer; and as long what a relay has refused,
after the last refusal."""
FIRST_DAY_MARGIN = timedelta(days=1)
"""Counts by hour are kept for one more day, so that those of the first day are complete."""
NO_RETENTION = timedelta()
"""Links, sessions and attempts to sign in are of no use after their end."""
OVERDUE_AFTER = timedelta(hours=1)
"""Entries of the send queue that have been due for longer are checked."""
MAY_ENTER_AGAIN = HAS_ENDED, AutomationRun.entry_key != literal_column("0", BigInteger)
"""Runs that have ended and whose contacts may enter again; the others keep them from it. Written as in the index."""


@contextmanager
def measured_sweep(name: str) -> Iterator[None]:
    """Counts a sweep, and how long it takes."""
    began = time.monotonic()
    try:
        yield
    except BaseException:
        SWEEPS.labels(name, "failed").inc()
        raise
    SWEEPS.labels(name, "done").inc()
    SWEEP_SECONDS.labels(name).observe(time.monotonic() - began)
    SWEEP_TIME.labels(name).set_to_current_time()


class SendQueueSweep:
    """The memory of one process of the send queue between sweeps, so that each reads only new entries."""

    def __init__(self, full_share: float = FULL_SHARE) -> None:
        self._due = DueAccounts(SEND_QUEUE, full_share)
        self._leases = ExpiredLeases(full_share)

    def finds_work(self, session: Session) -> bool:
        """Whether a recipient is due, has an expired lease, was scheduled for now or paused until now, or is to be
        decided."""
        is_new, is_due = self._due.look(session), self._due.has_any(session)
        is_found = is_new or is_due or bool(self._leases.workers(session)) or has_uncertain_due(session)
        return is_found or has_returning(session)

    @property
    def begin(self) -> QueueBegin:
        """Where the queue begins, by what it has found."""
        return QueueBegin(self._due.begin, self._leases.begin)


class RunSweep:
    """The memory of one process of the runs of automations between sweeps."""

    def __init__(self, full_share: float = FULL_SHARE) -> None:
        self._due = DueAccounts(RUN_QUEUE, full_share)

    def finds_work(self, session: Session) -> bool:
        """Whether a run is due, or held after the end of a pause."""
        self._due.look(session)
        return self._due.has_any(session) or has_held_to_release(session)


def clean(services: Services) -> None:
    """Prepares the ranges of the history; brings addresses into the form in which they are compared; deletes sends that
    are older than all recipients, idempotency records, webhook attempts, trigger firings, captured messages, records of
    processed reports, of imports and of bulk actions, tokens of relays, reports about domains, retired DKIM keys,
    counts by hour, ended runs and audit entries past their retention, ended sessions of the console, captured messages
    beyond their maximum, expired back-offs, refusals of relays, and queue entries whose recipient was deleted by hand;
    rotates the tables of events."""
    with measured_sweep("cleaning"):
        _clean(services)


def _clean(services: Services) -> None:
    history.prepare(services.database)
    compare_stored_addresses(services)
    settings = services.settings
    logs = settings.retain_logs
    _delete_older(services, IdempotencyRecord, IdempotencyRecord.creation_time, settings.retain_idempotency)
    delete_aged(services, WEBHOOK_ATTEMPTS)
    delete_aged(services, CAPTURED_MESSAGES)
    delete_beyond_limit(services)
    _delete_older(services, TriggerFiring, TriggerFiring.time, logs)
    _delete_older(services, InboundRecord, InboundRecord.time, logs)
    _delete_older(services, DomainReport, DomainReport.time, logs)
    _delete_older(services, HookToken, HookToken.time, TOKEN_LIFETIME)
    _delete_older(services, DkimKey, DkimKey.retired_time, RETIRED_KEY_LIFETIME)
    _delete_older(services, ContactImport, ContactImport.last_modified_time, logs)
    _delete_older(services, BulkAction, BulkAction.end_time, logs)
    counts_since = None if logs is None else logs + FIRST_DAY_MARGIN
    _delete_older(services, HourlyCount, HourlyCount.hour, counts_since)
    _delete_older(services, TagCount, TagCount.hour, counts_since)
    _delete_older(services, AutomationRun, AutomationRun.end_time, logs, *MAY_ENTER_AGAIN)
    _delete_older(services, DomainBackoff, DomainBackoff.until_time, BACKOFF_RETENTION)
    _delete_older(services, RelayRefusal, RelayRefusal.last_time, BACKOFF_RETENTION)
    _delete_older(services, ConsoleLink, ConsoleLink.end_time, NO_RETENTION)
    _delete_older(services, ConsoleSession, ConsoleSession.end_time, NO_RETENTION)
    _delete_older(services, ConsoleSignIn, ConsoleSignIn.end_time, NO_RETENTION)
    delete_aged(services, AUDIT_ENTRIES)
    _delete_entries_without_recipient(services, known_begin(services.redis))
    if sends := history.delete_sends_before_history(services):
        logger.info("cleaned sends", extra={"rows": sends})
    if labels := history.delete_labels_before_history(services):
        logger.info("cleaned recipient_labels", extra={"rows": labels})
    rotate_events(services)


def _delete_older(
    services: Services,
    model: type[Base],
    time: InstrumentedAttribute[Any],
    retention: timedelta | None,
    *conditions: ColumnElement[bool],
) -> None:
    if retention is None:
        return
    total = _delete_in_chunks(services, model, time, and_(time < now() - retention, *conditions))
    if total:
        logger.info("cleaned %s", model.__tablename__, extra={"rows": total})


def _delete_entries_without_recipient(services: Services, begin: QueueBegin) -> None:
    """Deletes such entries, which would be claimed in vain for ever, or stay uncertain. Only the oldest
    entries are checked, since those with a recipient leave the queue."""
    overdue = now() - OVERDUE_AFTER
    queued = and_(IS_READY, QueueEntry.ready_time >= begin.ready, QueueEntry.ready_time < overdue)
    uncertain = and_(entry_in_state(RecipientState.UNCERTAIN), QueueEntry.due_time < overdue)
    with services.database.write() as transaction:
        oldest = [
            *transaction.scalars(_recipient_ids(queued).order_by(QueueEntry.ready_time).limit(CHUNK)),
            *transaction.scalars(_recipient_ids(uncertain).order_by(QueueEntry.due_time).limit(CHUNK)),
        ]
        existing = (
            set(transaction.scalars(select(Recipient.id).where(in_json(Recipient.id, oldest)))) if oldest else set()
        )
        left = [recipient_id for recipient_id in oldest if recipient_id not in existing]
        delete_queue_entries(transaction, left)
    if left:
        logger.warning("deleted queue entries without a recipient", extra={"rows": len(left)})


def _recipient_ids(condition: ColumnElement[bool]) -> Select[int]:
    return select(QueueEntry.recipient_id).where(condition)


def _delete_in_chunks(
    services: Services, model: type[Base], order: InstrumentedAttribute[Any], is_old: ColumnElement[bool]
) -> int:
    """Deletes the rows that are old, in that order; returns their number."""
    key = table_of(model).primary_key.columns.values()
    oldest = select(*key).where(is_old).order_by(order).limit(CHUNK)
    statement = delete(model).where(tuple_(*key).in_(oldest))
    total, deleted = 0, CHUNK
    while deleted >= CHUNK and not services.stopping.is_set():
        with services.database.write() as transaction:
            result: CursorResult[Any] = transaction.connection().execute(statement)
            deleted = result.rowcount
        total += deleted
    return total
