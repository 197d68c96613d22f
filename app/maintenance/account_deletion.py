"""Deleting an account with everything in it, or only the test account of one (docs/testing.md#deleting).

In many short transactions, each of which deletes the next rows that an index gives, until there are none. So nothing of
it is remembered, and a run that was interrupted is gone on with by the next one. Every statement names the account or
what belongs to it. The account itself goes last, with what is small and what was written meanwhile.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, exists, func, insert, or_, select, tuple_
from sqlalchemy.orm import Session

from app.audit.actor import current_actor
from app.audit.record import Act, record, record_at_once
from app.audit.values import without_addresses
from app.clock import now, this_second
from app.db.database import Database, Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import (
    Account,
    ApiKey,
    Automation,
    AutomationRun,
    Base,
    BlockedAddress,
    CapturedMessage,
    ConsoleLink,
    ConsoleSession,
    Contact,
    Event,
    Group,
    GroupCount,
    HourlyCount,
    IdempotencyRecord,
    InboundRecord,
    List,
    QueueEntry,
    Recipient,
    RecipientLabel,
    RecipientStep,
    ReplyPart,
    Send,
    SendPause,
    SoftBounces,
    TagCount,
    TriggerFiring,
    Unsubscriber,
    Webhook,
    WebhookAttempt,
    table_of,
)
from app.db.write_turns import WriteTurns
from app.recipients.conditions import IS_SENDING, entry_in_state
from app.recipients.row import delete_queue_entries
from app.recipients.states import RecipientState

LOOK_INTERVAL = 0.2
"""Seconds between two looks for messages that are being sent."""

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that are deleted in chunks, in an order that an index gives. `noun` is how they are counted."""

    noun: str
    model: type[Base]
    scope: ColumnElement[bool]
    order: tuple[Any, ...]
    before: Callable[[Transaction, Sequence[int]], None] | None = None
    """Deletes what refers to the rows with these ids."""

    def chunk(self, transaction: Transaction, size: int) -> int:
        """Deletes the next rows; returns their number, including those that purging has deleted meanwhile."""
        key = table_of(self.model).primary_key.columns.values()
        rows = transaction.execute(select(*key).where(self.scope).order_by(*self.order).limit(size)).all()
        if not rows:
            return 0
        ids = [row[0] for row in rows]
        if self.before is not None:
            self.before(transaction, ids)
        if len(key) == 1:
            chosen = and_(in_json(key[0], ids), between_ids(key[0], ids))
        else:
            chosen = tuple_(*key).in_([tuple(row) for row in rows])
        transaction.connection().execute(delete(self.model).where(self.scope, chosen))
        return len(rows)

    def is_there(self, session: Session) -> bool:
        """Whether there are any."""
        return bool(session.scalar(select(exists().where(self.scope))))

    def count(self, session: Session) -> int:
        """How many there are."""
        return session.scalar(select(func.count()).select_from(self.model).where(self.scope)) or 0


def delete_test_account(database: Database, account: Account, advance: Advance = lambda _: None) -> Mapping[str, int]:
    """Deletes the test account; returns how many of what. `advance` is told of the rows of each transaction.

    Its keys are deleted first, so that no request adds anything. What is queued is not sent any more; messages that a
    worker is sending at that moment are waited for, so that nothing of them comes afterwards.
    """
    if account.test_of is None:
        raise ValueError(f"{account.name!r} is not a test account")
    with database.read() as session:
        counts = {"rows": rows_to_delete(session, account.id)}
    record_at_once(database, Act("test_account.deleted", account.test_of, account.id, account.name, counts=counts))
    return _Deletion(database, advance).delete_account(account)


def delete_account(database: Database, account: Account, advance: Advance = lambda _: None) -> None:
    """Deletes the account, and its test account before it. `advance` is told of the rows of each transaction.

    The first transaction ends its keys and sessions, so that no request adds anything, and pauses it, so that what
    waits is not sent. Messages that a worker is sending at that moment are waited for.
    """
    database.transact(partial(_shut, account=account))
    with database.read() as session:
        tests = session.scalars(select(Account).where(Account.test_of == account.id)).all()
    for each in (*tests, account):
        _Deletion(database, advance).delete_account(each)


def _shut(transaction: Transaction, account: Account) -> None:
    """Records the deletion, and lets nobody use the account or its test account any more."""
    is_shut = or_(Account.id == account.id, Account.test_of == account.id)
    for each in transaction.scalars(select(Account).where(is_shut)).all():
        record(transaction, Act("account.deleted", each.id, each.id, each.name))
        for model in (ApiKey, ConsoleSession, ConsoleLink):
            table = table_of(model)
            transaction.connection().execute(delete(table).where(table.c.account_id == each.id))
    if account.test_of is None:
        whole = {"account_id": account.id, "kind": "account", "reason": "deleted", "creation_time": this_second()}
        pausing = insert(table_of(SendPause)).values(**whole, paused_by=without_addresses(current_actor().name))
        transaction.connection().execute(pausing)


def rows_to_delete(session: Session, account_id: int) -> int:
    """How many rows `advance` is told of at the deletion of a test account, unless more come."""
    return sum(part.count(session) for part in (_keys(account_id), *_parts(session, account_id)))


class _Deletion:
    def __init__(self, database: Database, advance: Advance) -> None:
        self._database, self._advance = database, advance
        self._turns = WriteTurns(database)
        self.deleted: Counter[str] = Counter()

    def delete_account(self, account: Account) -> Mapping[str, int]:
        """Deletes the account; returns how many of what."""
        self.delete(_keys(account.id))
        self.empty_queue(account.id)
        with self._database.read() as session:
            parts = list(_parts(session, account.id))
        for part in parts:
            self.delete(part)
        with self._database.write() as transaction:
            transaction.connection().execute(delete(table_of(Account)).where(Account.id == account.id))
        return self.deleted

    def delete(self, part: Part) -> None:
        """Deletes all rows of the part."""
        for deleted in self._chunks(part):
            self.deleted[part.noun] += deleted
            self._advance(deleted)

    def empty_queue(self, account_id: int) -> None:
        """Deletes the entries of the send queue, and waits for those that are being sent; one whose worker has died is
        deleted when its lease ends."""
        is_of_account = QueueEntry.account_id == account_id
        order = (QueueEntry.priority, QueueEntry.due_time, QueueEntry.recipient_id)
        sending = select(exists().where(is_of_account, IS_SENDING))
        while True:
            abandoned = and_(IS_SENDING, QueueEntry.lease_time < now())
            states = RecipientState.SCHEDULED, RecipientState.QUEUED, RecipientState.UNCERTAIN
            waiting = map(entry_in_state, states)
            for state in (*waiting, abandoned):
                sum(self._chunks(Part("queue entries", QueueEntry, and_(is_of_account, state), order)))
            with self._database.read() as session:
                if not session.scalar(sending):
                    return
            time.sleep(LOOK_INTERVAL)

    def _chunks(self, part: Part) -> Iterator[int]:
        with self._database.read() as session:
            if not part.is_there(session):
                return  # without a turn, for which other writers would have to wait and which would wait for them
        deleted = size = self._turns.size
        while deleted == size:
            size = self._turns.size
            deleted = self._turns.take(size, partial(part.chunk, size=size))
            yield deleted


def _keys(account_id: int) -> Part:
    return Part("keys", ApiKey, ApiKey.account_id == account_id, (ApiKey.name,))


def _parts(session: Session, account_id: int) -> Iterator[Part]:
    """What else the account has, in the order of deleting: first what other rows refer to least."""
    yield from _webhook_parts(session, account_id)
    for automation_id in session.scalars(select(Automation.id).where(Automation.account_id == account_id)).all():
        runs = AutomationRun.automation_id == automation_id
        yield Part("runs", AutomationRun, runs, (AutomationRun.trigger_time, AutomationRun.id))
    page = (Recipient.creation_time, Recipient.id)
    yield Part("recipients", Recipient, Recipient.account_id == account_id, page, _delete_steps_and_entries)
    yield Part("sends", Send, Send.account_id == account_id, (Send.id,))
    for model, noun, *order in ACCOUNT_TABLES:
        yield Part(noun, model, table_of(model).c.account_id == account_id, tuple(order))
    yield Part("groups", Group, Group.account_id == account_id, (Group.creation_time, Group.id), _delete_group_counts)
    for list_id in session.scalars(select(List.id).where(List.account_id == account_id)).all():
        yield Part("contacts", Contact, Contact.list_id == list_id, (Contact.creation_time, Contact.id))


ACCOUNT_TABLES: tuple[tuple[Any, ...], ...] = (
    (CapturedMessage, "captured_messages", CapturedMessage.id),
    (HourlyCount, "others", HourlyCount.hour),
    (TagCount, "others", TagCount.tag, TagCount.hour),
    (Unsubscriber, "unsubscribed", Unsubscriber.kind, Unsubscriber.address),
    (BlockedAddress, "blocked", BlockedAddress.kind, BlockedAddress.address),
    (SoftBounces, "others", SoftBounces.kind, SoftBounces.address),
    (IdempotencyRecord, "others", IdempotencyRecord.key),
    (InboundRecord, "others", InboundRecord.fingerprint),
    (ReplyPart, "others", ReplyPart.number, ReplyPart.mobile),
    (TriggerFiring, "others", TriggerFiring.id),
)
"""Tables with an index that begins with the account: the noun, and what follows in the index."""


def _webhook_parts(session: Session, account_id: int) -> Iterator[Part]:
    """Events are found by their webhook, so that they go before it."""
    for webhook_id in session.scalars(select(Webhook.id).where(Webhook.account_id == account_id)).all():
        yield Part("events", Event, Event.webhook_id == webhook_id, (Event.id,))
        yield Part("others", WebhookAttempt, WebhookAttempt.webhook_id == webhook_id, (WebhookAttempt.id,))
    yield Part("webhooks", Webhook, Webhook.account_id == account_id, (Webhook.url,))


def _delete_steps_and_entries(transaction: Transaction, ids: Sequence[int]) -> None:
    """Steps, which have no index of their own id, labels, and what came into the queue meanwhile."""
    for column in (table_of(RecipientStep).c.recipient_id, table_of(RecipientLabel).c.recipient_id):
        is_of_recipients = in_json(column, ids), between_ids(column, ids)
        transaction.connection().execute(delete(column.table).where(*is_of_recipients))
    delete_queue_entries(transaction, ids)


def _delete_group_counts(transaction: Transaction, ids: Sequence[int]) -> None:
    counts = table_of(GroupCount)
    transaction.connection().execute(delete(counts).where(in_json(counts.c.group_id, ids)))
