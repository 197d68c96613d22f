"""Running bulk actions in slices, each in a short transaction, in which what was done is written with where the action
has come to. So a process may die at any time, and several may run slices at once.

The slice of whichever action had none for longest is next: a large action does not keep others waiting.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from sqlalchemy import ColumnElement, exists, select
from sqlalchemy.orm import Session

from app.audit.record import record
from app.bulk_actions.ask import act_on, counts_of
from app.bulk_actions.kinds import KINDS, Work
from app.bulk_actions.query import query_of
from app.clock import now
from app.db.database import Transaction
from app.db.models import Account, BulkAction
from app.db.outage import is_cancelled, is_unavailable
from app.db.write_turns import WriteTurns
from app.infrastructure import liveness
from app.infrastructure.redis_client import AUTOMATIONS, SENDS
from app.recipients.collection import Place, place_of
from app.services import Services

TIME_SLICE = 1.0
"""Seconds after which a worker makes room for other work of its queue."""

RETRY_DELAY = timedelta(minutes=1)
"""After which a slice is tried again that has taken too long."""

logger = logging.getLogger(__name__)


def has_due(session: Session) -> bool:
    """Whether a slice of any action may run."""
    return bool(session.scalar(select(exists().where(*_is_due()))))


def run_due(services: Services, time_slice: float = TIME_SLICE) -> int:
    """Runs slices until no action is due, the time slice ends, or the process is asked to stop. Returns how many."""
    end, busy, slices = time.monotonic() + time_slice, set[int](), 0
    turns = WriteTurns(services.database, sleep=services.stopping.wait)
    while not services.stopping.is_set():
        liveness.report()
        with services.database.read() as session:
            action = _next(session, busy)
        if action is None:
            break
        if slices and time.monotonic() > end:
            services.wake_ups.wake(AUTOMATIONS)
            break
        if not _run(services, turns, action):
            busy.add(action.id)
        slices += 1
    return slices


def _is_due() -> tuple[ColumnElement[bool], ...]:
    """A kind that this process does not know is left to those of a newer release."""
    return BulkAction.end_time.is_(None), BulkAction.due_time <= now(), BulkAction.action.in_(KINDS)


def _next(session: Session, busy: Collection[int]) -> BulkAction | None:
    due = select(BulkAction).where(*_is_due(), BulkAction.id.not_in(busy))
    return session.scalars(due.order_by(BulkAction.due_time, BulkAction.id).limit(1)).first()


def _run(services: Services, turns: WriteTurns, action: BulkAction) -> bool:
    """Whether the slice was run: not if somebody else runs this action just now, or has cancelled it."""
    try:
        with services.database.read() as session:
            slice_ = _slice(session, action, turns.size)
        return turns.take(max(1, len(slice_.ids)), partial(_act, services=services, slice_=slice_))
    except Exception as error:
        if is_unavailable(error):
            if is_cancelled(error):
                services.database.transact(partial(_put_off, action_id=action.id))
            raise
        logger.exception("a bulk action has failed", extra={"bulk_action": action.id})
        services.database.transact(partial(_fail, action_id=action.id))
        return True


@dataclass(frozen=True, slots=True)
class _Slice:
    """What comes next of an action that has come to the one with the id `after`, and whether it is the last of it."""

    action_id: int
    after: int | None
    work: Work
    ids: Sequence[int]
    last: Place | None
    is_last: bool


def _slice(session: Session, action: BulkAction, size: int) -> _Slice:
    """The next slice of the action. It is found before the transaction that acts upon it: on SQLite nobody else could
    write during the search."""
    account = session.get_one(Account, action.account_id)
    newest = action.newest_time, action.newest_id
    kind = KINDS[action.action]
    work = kind.work(account, query_of(action.query), newest)
    after = None if action.last_id is None or action.last_time is None else (action.last_time, action.last_id)
    most = min(size, kind.most - action.done - sum(action.left_out.values()))
    places = [place_of(row) for row in work.matches.next(session, (), after, most)]
    last = places[-1] if places else after
    return _Slice(action.id, action.last_id, work, [row_id for _, row_id in places], last, len(places) < size)


def _act(transaction: Transaction, services: Services, slice_: _Slice) -> bool:
    action = _lock_action(transaction, slice_.action_id)
    if action is None or action.last_id != slice_.after:
        return False
    left_out = dict(action.left_out)
    acted = slice_.work.act(transaction, services, slice_.ids)
    for reason, number in acted.left_out.items():
        left_out[reason] = left_out.get(reason, 0) + number
    action.done, action.left_out = action.done + acted.done, left_out
    action.state, action.due_time = "running", now()
    if slice_.last is not None:
        action.last_time, action.last_id = slice_.last
    if slice_.is_last:
        _end(transaction, action, "done")
    transaction.flush()
    if acted.done:
        transaction.after_commit(lambda: services.wake_ups.wake(SENDS))
    return True


def _lock_action(transaction: Transaction, action_id: int) -> BulkAction | None:
    """The action, unless another process runs a slice of it or it has ended."""
    statement = select(BulkAction).where(BulkAction.id == action_id, BulkAction.end_time.is_(None))
    return transaction.scalars(statement.with_for_update(skip_locked=True, key_share=True)).first()


def _end(transaction: Transaction, action: BulkAction, state: str) -> None:
    action.state, action.end_time = state, now()
    record(transaction, act_on(action, "bulk_action.ended", **counts_of(action)))
    said = {"account_id": action.account_id, "bulk_action": action.id, "state": state, **counts_of(action)}
    transaction.after_commit(lambda: logger.info("a bulk action has ended", extra=said))


def _put_off(transaction: Transaction, action_id: int) -> None:
    """Lets other actions go first."""
    action = _lock_action(transaction, action_id)
    if action is not None:
        action.due_time = now() + RETRY_DELAY
        transaction.flush()


def _fail(transaction: Transaction, action_id: int) -> None:
    """Ends an action whose slice cannot be run: what it has not come to stays as it is."""
    action = _lock_action(transaction, action_id)
    if action is not None:
        _end(transaction, action, "failed")
        transaction.flush()
