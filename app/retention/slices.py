"""Purging the next sends of an account, in one transaction.

The sends are gone through in the order of their ids, from a position that is kept: so a slice reads what it purges and
nothing else, however many sends there are (docs/decisions/025-purging-by-sends.md). A send with a recipient that is not
settled is passed and noted as delayed, and so is, where content is purged, one whose last outcome is younger than the
retention; it is looked at again when the retention has passed since then.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from sqlalchemy import Select, delete, func, or_, select, tuple_, update

from app.clock import now
from app.db.bulk import insert_rows
from app.db.database import Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import (
    Attachment,
    DelayedPurge,
    PurgePosition,
    QueueEntry,
    Recipient,
    RecipientLabel,
    RecipientStep,
    Send,
    table_of,
)
from app.db.write_turns import WriteTurns
from app.recipients.labels import METADATA_LABELS
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep
from app.retention.periods import Period, Stage, is_due, overdue
from app.sends.limits import MAX_RECIPIENTS
from app.services import Services

logger = logging.getLogger(__name__)


# Erasing content and recipients, the same whoever asks for it: the caller knows that it may be done.
#
# What is erased is gone: nothing here can be undone. Counts of groups stay.

NO_CONTENT = {"subject": None, "body_html": None, "body_text": None, "headers": None}
"""Columns of a send without its content. The blind copy's address stays, by which reports about the copy are known."""


def empty_values(transaction: Transaction, recipient_ids: Collection[int]) -> None:
    """Removes the wildcard values and the metadata of the recipients; those without any are not written."""
    columns = table_of(Recipient).c
    chosen = in_json(columns.id, recipient_ids), between_ids(columns.id, recipient_ids)
    has_some = or_(columns["values"] != {}, columns.custom_metadata.is_not(None))
    statement = update(table_of(Recipient)).where(*chosen, has_some)
    transaction.connection().execute(statement.values({"values": {}, "custom_metadata": None}))
    delete_metadata_labels(transaction, recipient_ids)


def delete_metadata_labels(transaction: Transaction, recipient_ids: Collection[int]) -> None:
    """Removes the labels by which recipients are found by their metadata. Their tags stay."""
    columns = table_of(RecipientLabel).c
    chosen = in_json(columns.recipient_id, recipient_ids), columns.label.startswith(METADATA_LABELS, autoescape=True)
    transaction.connection().execute(delete(table_of(RecipientLabel)).where(*chosen))


def delete_content(
    transaction: Transaction, send_ids: Collection[int], recipient_ids: Collection[int], moment: datetime
) -> None:
    """Removes the content of sends: bodies, attachments, and the values of all of their recipients. Targets of tracked
    links stay."""
    empty_values(transaction, recipient_ids)
    connection, sends, attachments = transaction.connection(), table_of(Send).c, table_of(Attachment).c
    connection.execute(delete(table_of(Attachment)).where(in_json(attachments.send_id, send_ids)))
    values = {**NO_CONTENT, "content_purged_time": moment}
    connection.execute(update(table_of(Send)).where(in_json(sends.id, send_ids)).values(values))


def delete_sends(transaction: Transaction, send_ids: Collection[int], recipient_ids: Collection[int]) -> None:
    """Deletes sends with all of their recipients, timelines, attachments and links."""
    connection, sends = transaction.connection(), table_of(Send).c
    children = [table_of(model).c.recipient_id for model in (RecipientLabel, RecipientStep)]
    for column in (*children, table_of(Recipient).c.id):
        chosen = in_json(column, recipient_ids), between_ids(column, recipient_ids)
        connection.execute(delete(column.table).where(*chosen))
    connection.execute(delete(table_of(Send)).where(in_json(sends.id, send_ids)))


MIN_RECIPIENTS = MAX_RECIPIENTS + 1
"""Recipients of a slice: one complete send at least."""
FAILED_STATES = (RecipientState.BOUNCED, RecipientState.FAILED)
FAILURE_STEPS = (TimelineStep.BOUNCED, TimelineStep.FAILED)


class Task(NamedTuple):
    """The stage of an account's purging: of sends from before `limit`, as of `moment`."""

    stage: Stage
    account_id: int
    limit: datetime
    moment: datetime


class SliceResult(NamedTuple):
    """What a slice has looked at, and how many sends it has purged."""

    sends: int
    recipients: int
    purged: int


class _SliceRows(NamedTuple):
    """Sends with their recipients: id, send_id, state, sent_time."""

    ids: Sequence[int]
    recipients: Sequence[Any]


def begin(transaction: Transaction, stage: Stage, account_id: int) -> None:
    """Makes the position of the account, if it has none yet."""
    statement = select(PurgePosition.send_id).where(*_is_of(stage, account_id))
    if transaction.scalar(statement) is None:
        insert_rows(transaction, PurgePosition, [{"account_id": account_id, "stage": stage, "send_id": 0}])


def purge_slice(transaction: Transaction, task: Task, most_sends: int, most_recipients: int) -> SliceResult | None:
    """Purges the next sends, of so many recipients at most; None if there are none, or if another process is at it."""
    position = select(PurgePosition).where(*_is_of(task.stage, task.account_id)).with_for_update(skip_locked=True)
    purge_position = transaction.scalars(position).first()
    if purge_position is None:
        return None
    delayed = _locked(transaction, _delayed(task, most_sends))
    times = delayed or _up_to_young(_locked(transaction, _following(task, purge_position.send_id, most_sends)), task)
    if not times:
        return None
    looked = _with_recipients(transaction, list(times), max(most_recipients, MIN_RECIPIENTS))
    waiting = _waiting(transaction, task, looked) | {
        send_id: task.moment for send_id in looked.ids if times[send_id] >= task.limit
    }
    _purge(transaction, task, looked, waiting)
    _note(transaction, task, looked, waiting)
    if not delayed:
        purge_position.send_id = looked.ids[-1]
        transaction.flush()
    return SliceResult(len(looked.ids), len(looked.recipients), len(looked.ids) - len(waiting))


def _is_of(stage: Stage, account_id: int) -> tuple[Any, Any]:
    return PurgePosition.account_id == account_id, PurgePosition.stage == stage


def _following(task: Task, position: int, most: int) -> Select[int, datetime]:
    """The next sends, in an order that only one index has: of another one a database might read all accounts."""
    after = tuple_(Send.account_id, Send.id) > tuple_(task.account_id, position)
    sends = select(Send.id, Send.creation_time).where(after, Send.account_id <= task.account_id)
    return sends.order_by(Send.account_id, Send.id).limit(most)


def _delayed(task: Task, most: int) -> Select[int, datetime]:
    is_of_stage = DelayedPurge.account_id == task.account_id, DelayedPurge.stage == task.stage
    due = select(DelayedPurge.send_id).where(*is_of_stage, DelayedPurge.since < task.limit)
    oldest = due.order_by(DelayedPurge.since).limit(most)
    sends = select(Send.id, Send.creation_time).where(Send.account_id == task.account_id, Send.id.in_(oldest))
    return sends.order_by(Send.id)


def _locked(transaction: Transaction, sends: Select[int, datetime]) -> dict[int, datetime]:
    """The sends with their times, under locks for which a retry waits (app/sends/outcomes/requeue.py)."""
    rows = transaction.execute(sends.with_for_update(key_share=True))
    return {row[0]: row[1] for row in rows}


def _up_to_young(times: dict[int, datetime], task: Task) -> dict[int, datetime]:
    """The sends before the first that is not due."""
    due = takewhile(lambda send_and_time: is_due(send_and_time[1], task.limit, task.moment), times.items())
    return dict(due)


def _with_recipients(transaction: Transaction, ids: Sequence[int], most: int) -> _SliceRows:
    """The first of the sends, as many as have no more recipients together."""
    statement = select(Recipient.id, Recipient.send_id, Recipient.state, Recipient.sent_time)
    recipients = statement.where(in_json(Recipient.send_id, ids)).order_by(Recipient.send_id, Recipient.id)
    rows = transaction.execute(recipients.limit(most + 1)).all()
    if len(rows) <= most:
        return _SliceRows(ids, rows)
    incomplete = rows[-1].send_id
    return _SliceRows(
        [send_id for send_id in ids if send_id < incomplete], [row for row in rows if row.send_id < incomplete]
    )


def _waiting(transaction: Transaction, task: Task, looked: _SliceRows) -> dict[int, datetime]:
    """The sends that are not ready, each with the time from which its retention counts at least."""
    send_of = {row.id: row.send_id for row in looked.recipients}
    unsettled = select(QueueEntry.recipient_id).where(in_json(QueueEntry.recipient_id, send_of))
    waiting = {send_of[recipient_id]: task.moment for recipient_id in transaction.scalars(unsettled)}
    if task.stage is Stage.RECIPIENTS:
        return waiting
    times = [(row.send_id, row.sent_time) for row in looked.recipients if row.sent_time is not None]
    times += [(send_of[recipient_id], time) for recipient_id, time in _given_up(transaction, looked)]
    for send_id, time in times:
        if time >= task.limit:
            waiting[send_id] = max(time, waiting.get(send_id, time))
    return waiting


def _given_up(transaction: Transaction, looked: _SliceRows) -> Sequence[Any]:
    """When recipients bounced or failed, which only their timelines tell."""
    ids = [row.id for row in looked.recipients if row.state in FAILED_STATES]
    if not ids:
        return ()
    column = RecipientStep.recipient_id
    steps = select(column, func.max(RecipientStep.time)).where(
        in_json(column, ids), between_ids(column, ids), RecipientStep.step.in_(FAILURE_STEPS)
    )
    return transaction.execute(steps.group_by(column)).all()


def _purge(transaction: Transaction, task: Task, looked: _SliceRows, waiting: dict[int, datetime]) -> None:
    ready = [send_id for send_id in looked.ids if send_id not in waiting]
    if not ready:
        return
    recipients = [row.id for row in looked.recipients if row.send_id not in waiting]
    if task.stage is Stage.CONTENT:
        delete_content(transaction, ready, recipients, task.moment)
    else:
        delete_sends(transaction, ready, recipients)


def _note(transaction: Transaction, task: Task, looked: _SliceRows, waiting: dict[int, datetime]) -> None:
    """Notes those that wait as delayed, and no others."""
    columns = table_of(DelayedPurge).c
    earlier = in_json(columns.send_id, looked.ids), columns.stage == task.stage
    transaction.connection().execute(delete(table_of(DelayedPurge)).where(*earlier))
    rows = [{"send_id": send_id, "since": since} for send_id, since in waiting.items()]
    insert_rows(transaction, DelayedPurge, rows, {"account_id": task.account_id, "stage": task.stage})


# Purging what is past its retention: a slice with its position (docs/retention.md).

TARGET_SECONDS = 0.02
"""Seconds that a slice is meant to take."""
TIME_SHARE = 0.15
"""The part of the time in which a slice is being purged."""
SENDS_AT_FIRST = 10


def purge(services: Services, stage: Stage, account_periods: Sequence[Period], moment: datetime | None = None) -> int:
    """Purges what the accounts keep no longer, until nothing of it is left or the process is to end. Returns the number
    of sends."""
    moment = moment or now()
    with services.database.read() as session:
        overdue_accounts = overdue(session, account_periods, stage, moment)
    turns = WriteTurns(services.database, target=TARGET_SECONDS, share=TIME_SHARE, sleep=services.stopping.wait)
    return sum(
        _purge_account(services, turns, Task(stage, account.account_id, account.limit, moment))
        for account in overdue_accounts
    )


def _purge_account(services: Services, turns: WriteTurns, task: Task) -> int:
    services.database.transact(partial(begin, stage=task.stage, account_id=task.account_id))
    sends, recipients, most_sends = 0, 0, SENDS_AT_FIRST
    while not services.stopping.is_set():
        size = max(turns.size, MIN_RECIPIENTS)
        work = partial(purge_slice, task=task, most_sends=most_sends, most_recipients=size)
        done = turns.take(size, work)
        if done is None:
            break
        sends, recipients = sends + done.purged, recipients + done.recipients
        # As many as had that number of recipients last time, so that nearly all that is read is purged.
        most_sends = max(1, size * done.sends // max(done.recipients, 1)) if done.recipients else size
        most_sends = min(most_sends, size)
    if sends:
        logger.info("purged %s", task.stage, extra={"account_id": task.account_id, "sends": sends})
    return sends
