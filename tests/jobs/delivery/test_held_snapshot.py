"""The memory of due accounts finds everything that is due, and a snapshot held elsewhere makes neither claims nor empty
looks slower (docs/decisions/015-send-queue-apart.md#a-snapshot-held-elsewhere)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy import delete, text, update

from app.cli.status import status_of
from app.clock import now
from app.db.database import Transaction
from app.db.due import DueAccounts, FullLooks
from app.db.models import QueueEntry, Recipient
from app.db.queue import SEND_QUEUE
from app.maintenance.figures import read_figures
from app.maintenance.sweeps import OVERDUE_AFTER, SendQueueSweep, clean
from app.recipients.row import delete_queue_entries
from app.sends.delivery.claim import claim, postpone, release_claims
from app.sends.delivery.recipient import ClaimedRecipient
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.recovery import ExpiredLeases, recover_expired_leases, resolve_uncertain
from app.sends.outcomes.requeue import requeue
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import write_outcomes
from app.sends.queue_begin import REDIS_KEY, QueueBegin, known_begin, publish_begin
from app.services import Services
from app.transports.base import DeliveryResult
from jobs.schedule import tick
from tests.jobs.conftest import new_account
from tests.jobs.delivery.test_fairness import addresses, take
from tests.support.rows import Rows
from tests.support.statements import SentStatement, StatementCounter

NO_REDIS = Redis(host="127.0.0.1", port=1, retry=Retry(NoBackoff(), 0))
ONCE = 1e-9
"""A share of the time so small that only the first look reads the whole queue."""
DEAD = 3000
"""Entries that are claimed and settled while the snapshot is held."""


def take_due(services: Services, due: DueAccounts, size: int = 100, after: int = 0) -> list[ClaimedRecipient]:
    with services.database.write() as transaction:
        return claim(transaction, "w", size=size, after=after, due=due)


def reach(monkeypatch: pytest.MonkeyPatch, **changed: timedelta) -> None:
    monkeypatch.setattr(SEND_QUEUE, "reach", SEND_QUEUE.reach._replace(**changed))


def settle(services: Services, claimed: list[ClaimedRecipient]) -> None:
    with services.database.write() as transaction:
        delete_queue_entries(transaction, [recipient.id for recipient in claimed])


def blocks_read(services: Services, work: Callable[[], object]) -> int:
    """The number of blocks of the send queue that the statements of the work read when they are executed again and
    rolled back; the accounts of other tests do not count. Their plans are printed, for the report of a failure."""
    with StatementCounter(services.database.engine) as counter:
        work()
    with services.database.write() as transaction:
        plans = [
            _executed(transaction, sent_statement)
            for sent_statement in counter.sent
            if "send_queue" in sent_statement.statement
        ]
        transaction.rollback()
    print(*map(orjson.dumps, plans), sep="\n")
    return sum(map(_blocks_of_queue, plans))


def _blocks_of_queue(plan: dict[str, Any]) -> int:
    if plan.get("Relation Name") == "send_queue":
        blocks: int = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        return blocks
    return sum(map(_blocks_of_queue, plan.get("Plans", ())))


def _executed(transaction: Transaction, sent: SentStatement) -> dict[str, Any]:
    statement = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sent.statement}"
    (explained,) = transaction.connection().exec_driver_sql(statement, sent.parameters).scalar_one()
    plan: dict[str, Any] = explained["Plan"]
    return plan


@pytest.mark.postgresql("SQLite removes entries at once")
@pytest.mark.usefixtures("backup")
def test_claims_and_looks_read_nothing_that_was_claimed_before(
    rows: Rows, worker: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL keeps settled entries while any snapshot may see them, and a full look reads them all."""
    reach(monkeypatch, near=timedelta(0), far_every=timedelta(days=1))
    read = worker.database.read
    due, sweep = DueAccounts(SEND_QUEUE, ONCE), SendQueueSweep(ONCE)
    with read() as session:
        assert not sweep.finds_work(session)
    settle_some(rows, worker, due)

    def claim_one(due: DueAccounts) -> None:
        assert len(take_due(worker, due, 1)) == 1

    def find_nothing(sweep: SendQueueSweep) -> None:
        with read() as session:
            assert not sweep.finds_work(session)

    with read() as session:
        assert sweep.finds_work(session)  # what was added since its first look
    few = blocks_read(worker, lambda: claim_one(due)), blocks_read(worker, lambda: claim_one(DueAccounts(SEND_QUEUE)))
    settle(worker, take(worker, 10))
    with read() as session:
        assert not sweep.finds_work(session)
    more = (
        blocks_read(worker, lambda: find_nothing(sweep)),
        blocks_read(worker, lambda: find_nothing(SendQueueSweep())),
    )
    for remembering, forgetful in (few, more):
        assert remembering < DEAD // 60 < forgetful


@pytest.mark.postgresql("SQLite removes entries at once")
@pytest.mark.usefixtures("backup")
def test_expired_leases_of_settled_entries_are_read_by_one_look(rows: Rows, worker: Services) -> None:
    def find_none(leases: ExpiredLeases) -> None:
        with worker.database.read() as session:
            assert leases.workers(session) == set()

    leases = ExpiredLeases(ONCE)
    find_none(leases)
    settle_some(rows, worker, DueAccounts(SEND_QUEUE, ONCE), lease_ended=timedelta(0))
    first, second = (blocks_read(worker, lambda: find_none(leases)) for _ in range(2))
    assert second < DEAD // 60 < first


@pytest.fixture
def backup(worker: Services) -> Iterator[None]:
    """A snapshot that is held during the test, in which the blocks of other tests are not read."""
    with worker.database.write() as transaction:
        transaction.execute(text("TRUNCATE send_queue, recipients CASCADE"))
    with worker.database.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        connection.execute(text("SELECT 1"))
        yield


@pytest.mark.postgresql("SQLite removes entries at once")
@pytest.mark.usefixtures("backup")
def test_what_looks_once_begins_where_the_scheduler_has_come_to(
    rows: Rows, worker: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`flask status` and the cleaning, which remember nothing, ask for what the scheduler remembers."""
    reach(monkeypatch, far=timedelta(0))
    monkeypatch.setattr("app.sends.delivery.claim.LEASE", -60.0)  # what was leased within a lease's time is read
    sweep = SendQueueSweep(ONCE)
    clean(worker)  # what other tests have left, so that each cleaning below finds the same
    tick(worker, [], sweep)
    settle_some(rows, worker, DueAccounts(SEND_QUEUE), ready=now() - 2 * OVERDUE_AFTER)
    settle(worker, take(worker, 4))
    tick(worker, [], sweep)
    (late,) = rows.add_send(["late@example.com"], due_in=-7200)
    moment = now() + timedelta(seconds=1)

    def show_status() -> Mapping[str, Any]:
        with worker.database.read() as session:
            return status_of(read_figures(session, worker.settings, known_begin(worker.redis), moment))

    status = show_status()
    few = blocks_read(worker, show_status), blocks_read(worker, lambda: clean(worker))
    worker.redis.delete(REDIS_KEY)
    assert show_status() == status
    many = blocks_read(worker, show_status), blocks_read(worker, lambda: clean(worker))
    assert status["due"] == 1
    for remembering, forgetful in zip(few, many, strict=True):
        assert forgetful - remembering > DEAD // 60  # both read what other tests have left in other tables
    assert [row.id for row in take(worker, 4)] == [late]


def test_a_process_that_looks_often_moves_on_with_the_backlog(rows: Rows, worker: Services) -> None:
    """A process moves on even if it claims nothing."""
    moment = now() - timedelta(hours=3)
    rows.add_send(addresses(2), due_in=-3 * 3600)
    rows.add_send(addresses(2), due_in=-2 * 3600)
    sweep = SendQueueSweep(ONCE)
    with worker.database.read() as session:
        assert sweep.finds_work(session)
    first = sweep.begin.ready
    assert abs(first - moment) < timedelta(minutes=1)
    settle(worker, take(worker, 2))
    with worker.database.read() as session:
        assert sweep.finds_work(session)
    assert abs(sweep.begin.ready - first - timedelta(hours=1)) < timedelta(minutes=1)


def test_without_redis_everything_is_read(worker: Services) -> None:
    assert known_begin(worker.redis) == QueueBegin()
    publish_begin(NO_REDIS, QueueBegin())
    assert known_begin(NO_REDIS) == QueueBegin()


def settle_some(
    rows: Rows,
    worker: Services,
    due: DueAccounts,
    ready: datetime | None = None,
    lease_ended: timedelta = timedelta(minutes=1),
) -> None:
    """Leaves `DEAD` settled entries, whose leases would have expired so long ago, and four due ones; the former became
    due and ready at that moment. The planner takes both tables for empty ones, where all plans cost the same."""
    settle(worker, take(worker, len(rows.add_send(addresses(1)))))
    with worker.database.write() as transaction:
        transaction.execute(delete(QueueEntry))  # an older one, left by another test, is where the queue would begin
        transaction.execute(delete(Recipient))
        transaction.execute(text("ANALYZE recipients"))
    ids = rows.add_send(addresses(DEAD))
    if ready:
        rows.change(ids, due_time=ready, ready_time=ready)
    claimed = take_due(worker, due, DEAD)
    assert len(claimed) == DEAD
    rows.change([recipient.id for recipient in claimed], lease_time=now() - lease_ended)
    settle(worker, claimed)
    with worker.database.write() as transaction:
        transaction.execute(text("ANALYZE send_queue"))
    rows.add_send(addresses(4))


def accounts(services: Services) -> list[Rows]:
    """Three accounts, in the order of their ids."""
    return [Rows(services, new_account(services)) for _ in range(3)]


def test_accounts_have_their_turns_from_memory(worker: Services) -> None:
    """Each gets the same number, however much it has; and two workers with a memory claim everything once."""
    big, small, third = accounts(worker)
    ids = [*big.add_send(addresses(40)), *small.add_send(addresses(3)), *third.add_send(addresses(7), priority="high")]
    first_turns, two = DueAccounts(SEND_QUEUE, ONCE), DueAccounts(SEND_QUEUE, ONCE)
    first = take_due(worker, first_turns, 9)
    assert Counter(row.account_id for row in first) == dict.fromkeys(
        (big.account_id, small.account_id, third.account_id), 3
    )
    claimed = [row.id for row in first]
    for turn in range(20):
        claimed += [row.id for row in take_due(worker, (two, first_turns)[turn % 2], 4)]
    assert sorted(claimed) == sorted(ids)


def test_the_turn_goes_on_behind_the_last_account(worker: Services) -> None:
    first, second, third = accounts(worker)
    for account_rows in (first, second, third):
        account_rows.add_send(addresses(3))
    due, last, served = DueAccounts(SEND_QUEUE, ONCE), 0, []
    for _ in range(9):
        (row,) = take_due(worker, due, 1, after=last)
        last = row.account_id
        served.append(last)
    assert served == [first.account_id, second.account_id, third.account_id] * 3
    assert take_due(worker, due, 1, after=last) == []


def test_what_others_put_into_the_queue_is_found(rows: Rows, worker: Services) -> None:
    """Entries are found for an account that had nothing due, and for a known one. High priority goes first."""
    due = DueAccounts(SEND_QUEUE, ONCE)
    assert take_due(worker, due) == []
    normal = rows.add_send(addresses(3))
    assert [row.id for row in take_due(worker, due, 2)] == normal[:2]
    high = rows.add_send(["reset@example.com"], priority="high")
    assert [row.id for row in take_due(worker, due, 2)] == [*high, normal[2]]


def released(rows: Rows, worker: Services, ids: list[int]) -> None:
    with worker.database.write() as transaction:
        release_claims(transaction, "other", ids)


def postponed(rows: Rows, worker: Services, ids: list[int]) -> None:
    with worker.database.write() as transaction:
        postpone(transaction, "other", dict.fromkeys(ids, now()))


def deferred(rows: Rows, worker: Services, ids: list[int]) -> None:
    answer = DeliveryResult.deferred("451 4.3.0 later", "4.3.0")
    results = [AttemptResult(row, 1, "a@example.com", now(), answer) for row in ids]
    with worker.database.write() as transaction:
        assert len(write_outcomes(transaction, "other", results, RetryRules(0, 600))) == len(ids)


def recovered(rows: Rows, worker: Services, ids: list[int]) -> None:
    rows.change(ids, lease_time=now())
    recover_expired_leases(worker)


def uncertain(rows: Rows, worker: Services, ids: list[int]) -> None:
    rows.change(ids, state="uncertain", worker=None, due_time=now())
    resolve_uncertain(worker)


def retried(rows: Rows, worker: Services, ids: list[int]) -> None:
    rows.change(ids, state="failed")
    for row in ids:
        with worker.database.write() as transaction:
            requeue(transaction, rows.recipient(row).uuid)


@pytest.mark.parametrize(
    "way", [released, postponed, deferred, recovered, uncertain, retried], ids=lambda way: way.__name__
)
def test_what_goes_back_into_the_queue_is_found(
    rows: Rows, worker: Services, monkeypatch: pytest.MonkeyPatch, way: Callable[[Rows, Services, list[int]], None]
) -> None:
    """The entry is found by a process whose positions were already beyond it, and which did not know of it."""
    reach(monkeypatch, near=timedelta(0))
    due = DueAccounts(SEND_QUEUE, ONCE)
    ids = rows.add_send(addresses(2))
    take(worker, 2, worker="other")
    assert take_due(worker, due) == []
    way(rows, worker, ids)
    assert sorted(row.id for row in take_due(worker, due)) == ids


def test_what_is_released_keeps_its_place(rows: Rows, worker: Services) -> None:
    """A released entry is claimed before newer ones, even by a worker whose positions were beyond it."""
    due = DueAccounts(SEND_QUEUE, ONCE)
    ids = rows.add_send(addresses(6))
    oldest = [row.id for row in take(worker, 2, worker="other")]
    assert oldest == ids[:2]
    assert [row.id for row in take_due(worker, due, 2)] == ids[2:4]
    released(rows, worker, oldest)
    assert [row.id for row in take_due(worker, due, 3)] == [*oldest, ids[4]]


@pytest.mark.parametrize(("far", "found_count"), [(timedelta(0), 1), (timedelta(days=1), 0)])
def test_what_was_committed_late_is_found_by_a_look_that_reaches_back(
    rows: Rows, worker: Services, monkeypatch: pytest.MonkeyPatch, far: timedelta, found_count: int
) -> None:
    reach(monkeypatch, far=timedelta(hours=1), far_every=far)
    due, moment = DueAccounts(SEND_QUEUE, ONCE), now() - timedelta(minutes=10)
    take_due(worker, due)
    (ann,) = rows.add_send(["ann@example.com"])
    with worker.database.write() as transaction:
        transaction.execute(update(QueueEntry).values(ready_time=moment, due_time=moment))
    assert len(take_due(worker, due)) == found_count
    assert [row.id for row in take_due(worker, DueAccounts(SEND_QUEUE))] == [ann][found_count:]


def test_a_claim_that_was_undone_is_forgotten(rows: Rows, worker: Services) -> None:
    due = DueAccounts(SEND_QUEUE, ONCE)
    ids = rows.add_send(addresses(2))
    with worker.database.write() as transaction:
        assert len(claim(transaction, "w", size=2, after=0, due=due)) == 2
        transaction.rollback()
    due.clear()
    assert [row.id for row in take_due(worker, due)] == ids


def test_a_sweep_that_remembers_finds_work_and_its_end(rows: Rows, worker: Services) -> None:
    """Due entries that others have claimed, and leases that end."""
    sweep = SendQueueSweep(ONCE)

    def finds_work() -> bool:
        with worker.database.read() as session:
            return sweep.finds_work(session)

    assert not finds_work()
    (ann,) = rows.add_send(["ann@example.com"])
    assert finds_work()
    assert finds_work()
    take(worker, 1)
    assert not finds_work()
    rows.change([ann], lease_time=now())
    assert finds_work()
    recover_expired_leases(worker)
    assert finds_work()
    settle(worker, take(worker, 1))
    assert not finds_work()


def test_looks_at_the_whole_queue_take_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that took a second is repeated after a hundred seconds, one that takes no time always."""
    looks, moment = FullLooks(0.01), [100.0]
    monkeypatch.setattr("app.db.due.time", SimpleNamespace(monotonic=lambda: moment[0]))
    assert looks.is_due()
    moment[0] = 101.0
    looks.note(100.0)
    moment[0] = 199.9
    assert not looks.is_due()
    moment[0] = 200.0
    assert looks.is_due()
    looks.note(200.0)
    assert looks.is_due()
