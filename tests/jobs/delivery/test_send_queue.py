"""The queue apart from the history: a recipient is written when it is accepted and when it is settled, and what
happens in between concerns its entry in the queue only (docs/decisions/015-send-queue-apart.md)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import delete, func, select

from app.clock import now
from app.db.models import Account, QueueEntry, Recipient
from app.infrastructure.redis_client import SENDS
from app.maintenance.sweeps import clean
from app.sends.delivery.claim import postpone, release_claims, renew_leases
from app.sends.delivery.drain import Drain, drain
from app.sends.delivery.sender_worker import INITIAL_BATCH_SIZE, close_sender_worker, sender_worker_of
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.recovery import recover_expired_leases
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import write_outcomes
from app.services import Services
from app.transports.base import DeliveryResult
from tests.databases.running import Alone, alone
from tests.jobs.delivery.test_fairness import addresses, take
from tests.support.rows import Rows
from tests.support.statements import StatementCounter

DEFERRED = DeliveryResult.deferred("451 4.3.0 later", "4.3.0")
ACCEPTED = DeliveryResult.accepted("250 ok", "2.0.0")


def entries(services: Services) -> int:
    with services.database.read() as session:
        return session.scalars(select(func.count()).select_from(QueueEntry)).one()


def written(services: Services, recipient_id: int) -> tuple[str, int]:
    """State and attempts of the recipient's row."""
    with services.database.read() as session:
        row = session.get_one(Recipient, recipient_id)
        return row.state, row.attempts


def result(recipient_id: int, attempt: int, answer: DeliveryResult) -> AttemptResult:
    return AttemptResult(recipient_id, attempt, "ann@example.com", now(), answer)


def test_nothing_of_a_recipient_is_written_between_acceptance_and_outcome(rows: Rows, worker: Services) -> None:
    """Claimed, renewed, released, postponed, deferred and recovered: the row of the history stays as it was."""
    (ann,) = rows.add_send(["ann@example.com"])
    with StatementCounter(worker.database.engine) as counted:
        take(worker, 1)
        with worker.database.write() as transaction:
            renew_leases(transaction, "w", [ann])
            release_claims(transaction, "w", [ann])
        take(worker, 1)
        with worker.database.write() as transaction:
            postpone(transaction, "w", {ann: now()})
        take(worker, 1)
        with worker.database.write() as transaction:
            assert write_outcomes(transaction, "w", [result(ann, 1, DEFERRED)], RetryRules(0, 600))
        take(worker, 1, worker="gone")
        rows.change([ann], lease_time=now())
        recover_expired_leases(worker)
    assert [statement for statement in counted.statements if "UPDATE recipients" in statement] == []
    assert (rows.states([ann]), rows.recipient(ann).attempts) == (["queued"], 2)
    assert [step for step, _ in rows.steps(ann)] == ["deferred", "recovered"]
    assert written(worker, ann) == ("queued", 0)
    take(worker, 1)
    with worker.database.write() as transaction, StatementCounter(worker.database.engine) as counted:
        assert write_outcomes(transaction, "w", [result(ann, 3, ACCEPTED)], RetryRules(0, 600))
    assert len([statement for statement in counted.statements if "UPDATE recipients" in statement]) == 1
    assert (written(worker, ann), entries(worker)) == (("delivered", 3), 0)


def test_the_queue_is_empty_when_everything_is_settled(rows: Rows, worker: Services) -> None:
    ids = rows.add_send(addresses(30))
    drain(worker)
    assert set(rows.states(ids)) == {"delivered"}
    assert entries(worker) == 0


def test_entries_go_with_their_account(rows: Rows, worker: Services) -> None:
    rows.add_send(["ann@example.com"])
    with worker.database.write() as transaction:
        transaction.execute(delete(Account).where(Account.id == rows.account_id))
    assert entries(worker) == 0


def test_the_cleaning_deletes_entries_that_have_lost_their_recipient(rows: Rows, worker: Services) -> None:
    """An entry without a recipient would be claimed in vain for ever. Entries that are merely late stay."""
    gone, late, due = rows.add_send(addresses(3), due_in=-7200)
    early = now() - timedelta(hours=2)
    rows.change([gone, late], due_time=early, ready_time=early)
    rows.change([due], due_time=now())
    with worker.database.write() as transaction:
        transaction.execute(delete(Recipient).where(Recipient.id.in_([gone, due])))
    clean(worker)
    with worker.database.read() as session:
        assert set(session.scalars(select(QueueEntry.recipient_id))) == {late, due}
    rows.change([due], due_time=early, ready_time=early)
    clean(worker)
    with worker.database.read() as session:
        assert session.scalars(select(QueueEntry.recipient_id)).all() == [late]


def test_the_cleaning_deletes_uncertain_entries_that_have_lost_their_recipient(rows: Rows, worker: Services) -> None:
    """Nobody could decide them."""
    gone, late = rows.add_send(addresses(2))
    rows.change([gone, late], state="uncertain", due_time=now() - timedelta(hours=2))
    with worker.database.write() as transaction:
        transaction.execute(delete(Recipient).where(Recipient.id == gone))
    clean(worker)
    with worker.database.read() as session:
        assert session.scalars(select(QueueEntry.recipient_id)).all() == [late]


@pytest.fixture
def parts() -> Iterator[Alone]:
    """Services with their own Redis."""
    with alone(None) as made:
        yield made
        close_sender_worker(made.services)


@pytest.mark.parametrize(("count", "waiting"), [(INITIAL_BATCH_SIZE - 1, 0), (INITIAL_BATCH_SIZE, 1)])
def test_who_claims_a_full_batch_wakes_another_worker(parts: Alone, count: int, waiting: int) -> None:
    """All workers share a burst at once, instead of one more with each look of the scheduler."""
    Rows(parts.services, parts.tenant.id).add_send(addresses(count))
    loop = Drain(parts.services, sender_worker_of(parts.services))
    loop.send_first_batch()
    assert parts.waiting(SENDS) == waiting
    loop.run()
