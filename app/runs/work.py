"""The work of the queue `automations`: advances what is due, chunk by chunk, for one time slice.

Each chunk takes evenly from all accounts that have due runs, so that an account with one run does not wait behind
another one's hundred thousand. Several workers share the work: each skips what others have locked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.contacts.subscriptions import lock_subscriptions
from app.db.database import Transaction
from app.db.due import DueAccounts, Positions
from app.db.outage import is_unavailable
from app.db.queue import ONLY_PRIORITY, RUN_QUEUE, LockedEntry, chunk_size, lock_due
from app.infrastructure import liveness
from app.infrastructure.redis_client import AUTOMATIONS, SENDS
from app.runs.advance import ChunkResult, advance, put_off
from app.runs.due import lock_again, read_runs
from app.runs.releases import RunReleases
from app.services import Services

logger = logging.getLogger(__name__)

TIME_SLICE = 30.0
"""Seconds after which a worker makes room for the next wake-up."""


def advance_due(services: Services, due: DueAccounts | None = None, releases: RunReleases | None = None) -> int:
    """Advances what is due until nothing is, the time slice ends, or the process is asked to stop. `due` and `releases`
    are what the process remembers of the last time. Returns how many times a run was advanced."""
    end, total = time.monotonic() + TIME_SLICE, 0
    due = due or DueAccounts(RUN_QUEUE)
    releases = releases or RunReleases(services)
    releases.look()
    while not services.stopping.is_set():
        liveness.report()
        if time.monotonic() > end:
            services.wake_ups.wake(AUTOMATIONS)
            break
        if releases.has_left and releases.take_turn():
            due.clear()
        accounts, each = _in_turn(services, due)
        if not accounts:
            if releases.has_left:
                continue
            break
        try:
            advanced = _advance_chunk(services, due, accounts, each)
        except Exception:
            due.clear()
            raise
        total += advanced.runs
        if not advanced.runs and due.is_empty and not releases.has_left:
            break  # others have locked all that was found: looking again at once would find the same
    return total


def _in_turn(services: Services, due: DueAccounts) -> tuple[Mapping[int, Positions], int]:
    """The accounts of a chunk, and how many runs it takes of each: accounts with due runs that come after the last one,
    then from the first."""
    with services.database.read() as session:
        due.look(session)
        most = chunk_size(session)
    in_turn = due.next_accounts(due.last_account, most)
    return in_turn, max(1, most // max(1, len(in_turn)))


def _advance_chunk(services: Services, due: DueAccounts, accounts: Mapping[int, Positions], each: int) -> ChunkResult:
    """Advances the next chunk; where that fails, in parts."""
    locked: list[LockedEntry] = []

    def work(transaction: Transaction) -> ChunkResult:
        locked[:] = lock_due(RUN_QUEUE, transaction, accounts, now(), each)
        return advance(transaction, [run.id for run in locked])

    try:
        advanced = services.database.transact(work)
    except Exception as error:
        if not locked or (isinstance(error, SQLAlchemyError) and is_unavailable(error)):
            raise
        advanced = _advance_parts(services, [run.id for run in locked], error)
    else:
        advanced = _finished(services, advanced)
    due.note_taken(accounts, each, ((run.account_id, ONLY_PRIORITY, (run.due_time, run.id)) for run in locked))
    return advanced


def _finished(services: Services, advanced: ChunkResult) -> ChunkResult:
    """Wakes the senders, and advances what was put aside."""
    if advanced.messages:
        services.wake_ups.wake(SENDS)
    if advanced.put_aside:
        aside = services.database.transact(_with_subscriptions_locked(advanced.put_aside))
        advanced.runs += aside.runs
    return advanced


def _with_subscriptions_locked(ids: Collection[int]) -> Callable[[Transaction], ChunkResult]:
    """Advances runs that unsubscribe: the lock on the subscriptions of their accounts comes before those of the runs,
    which may have been advanced by others meanwhile."""

    def work(transaction: Transaction) -> ChunkResult:
        for account_id in sorted({run.account_id for run in read_runs(transaction, ids)}):
            lock_subscriptions(transaction, account_id)
        return advance(transaction, lock_again(transaction, ids, now()), may_unsubscribe=True)

    return work


def _advance_parts(services: Services, ids: Sequence[int], error: Exception) -> ChunkResult:
    """Advances runs that could not be advanced together, in halves; puts off the one that fails alone."""
    if len(ids) == 1:
        logger.error("cannot advance a run", exc_info=error, extra={"run": ids[0]})
        services.database.transact(
            lambda transaction: put_off(transaction, read_runs(transaction, lock_again(transaction, ids, now())), now())
        )
        return ChunkResult(runs=1)
    both = ChunkResult()
    for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]):
        try:
            advanced = services.database.transact(_again(half))
            advanced = _finished(services, advanced)
        except Exception as failure:
            if isinstance(failure, SQLAlchemyError) and is_unavailable(failure):
                raise
            advanced = _advance_parts(services, half, failure)
        both.runs += advanced.runs
    return both


def _again(ids: Collection[int]) -> Callable[[Transaction], ChunkResult]:
    return lambda transaction: advance(transaction, lock_again(transaction, ids, now()))
