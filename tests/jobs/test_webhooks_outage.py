"""An outage of the database during dispatch: nothing is lost, and no lease has to expire."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError

from app.clock import now
from app.db.database import Transaction
from app.db.models import Webhook
from app.events import dispatch
from app.events.dispatch import WebhookClient, WebhookDispatcher
from app.services import Services, make_services
from tests.conftest import test_settings
from tests.jobs.conftest import AddHook, new_account, new_hook
from tests.jobs.test_webhooks import batch_id, numbers
from tests.support.own_postgres import OwnPostgres
from tests.support.servers import PATIENCE, short_folder, wait_until
from tests.support.webhook_receiver import Receiver, Reply


@pytest.fixture
def dispatcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookDispatcher]:
    monkeypatch.setattr(dispatch, "DATABASE_RETRY_SECONDS", 0.02)
    with closing(WebhookClient()) as client:
        yield WebhookDispatcher(client)


class LostCommits:
    """Commits that succeed, but whose answers are lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._numbers: set[int] = set()
        self._count = 0
        commit = Transaction.commit

        def counted(transaction: Transaction) -> None:
            commit(transaction)
            self._count += 1
            if self._count in self._numbers:
                raise OperationalError("COMMIT", {}, Exception("the connection is lost"))

        monkeypatch.setattr(Transaction, "commit", counted)

    def lose(self, *numbers: int) -> None:
        """Loses the answers of the commits with these numbers from now on."""
        self._numbers, self._count = set(numbers), 0


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> LostCommits:
    return LostCommits(monkeypatch)


@pytest.fixture
def parts(own_postgres: OwnPostgres, redis_url: str) -> Iterator[Services]:
    """The services of a process whose database can be stopped."""
    with short_folder() as folder:
        services = make_services(test_settings(folder, DATABASE_URL=own_postgres.url, REDIS_URL=redis_url))
        yield services
        services.database.close()
        services.redis.close()


def test_an_answer_received_during_an_outage_is_written_after_it(
    own_postgres: OwnPostgres, parts: Services, dispatcher: WebhookDispatcher
) -> None:
    """The receiver gets the batch once, and the next one at once, without waiting for the end of a lease."""
    gate = threading.Event()
    with Receiver(Reply(gate=gate), Reply()) as receiver:
        hook = new_hook(parts, new_account(parts), receiver.url)
        hook.happen(1)
        running = threading.Thread(target=dispatcher.run, args=(parts,))
        running.start()
        wait_until(lambda: receiver.hits, "the request is there")
        hook.happen(2)
        with own_postgres.away():
            gate.set()
            wait_until(lambda: dispatcher.unrecorded == 1, "the outcome waits")
        wait_until(lambda: len(receiver.hits) == 2, "the next batch")
        running.join()
    assert numbers(receiver) == [[1], [2]]
    assert hook.waiting == 0


CANCEL_RECORD = text(
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
    "AND wait_event_type = 'Lock' AND query LIKE '%FROM webhooks%'"
)


def test_a_webhook_that_somebody_has_locked_delays_no_other(
    parts: Services, dispatcher: WebhookDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An account that is deleted may keep its webhooks locked for minutes, beyond the end of their leases."""
    monkeypatch.setattr(dispatch, "JOB_SECONDS", PATIENCE)
    gate = threading.Event()
    with Receiver(Reply(gate=gate)) as receiver, Receiver() as other_receiver:
        hook, other = (new_hook(parts, new_account(parts), each.url) for each in (receiver, other_receiver))
        hook.happen(1)
        running = threading.Thread(target=dispatcher.run, args=(parts,))
        running.start()
        wait_until(lambda: receiver.hits, "the request is there")
        hook.set(lease_time=now(), due_time=now())
        with parts.database.write() as transaction:
            transaction.execute(select(Webhook.id).where(Webhook.id == hook.id).with_for_update())
            gate.set()
            wait_until(lambda: _cancelled(parts), "waiting for the lock was ended")
            wait_until(lambda: dispatcher.unrecorded == 1, "the outcome waits")
            other.happen(2)
            wait_until(lambda: other_receiver.hits, "the other webhook gets its event")
        running.join()
    assert (numbers(receiver), numbers(other_receiver)) == ([[1]], [[2]])
    assert (hook.waiting, other.waiting) == (0, 0)


def _cancelled(parts: Services) -> bool:
    with parts.database.read() as session:
        return list(session.scalars(CANCEL_RECORD)) == [True]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_lost_answer_to_a_commit_costs_no_lease_and_duplicates_nothing(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher, lost: LostCommits, number: int
) -> None:
    """The commit of the claim, of an outcome with the claim of the next batch, or of the last outcome."""
    with Receiver() as receiver:
        hook = add_hook(receiver.url)
        hook.happen(*range(1500))
        lost.lose(number)
        dispatcher.run(services)
        wait_until(lambda: not hook.waiting, "all are delivered")
        dispatcher.run(services)
    assert numbers(receiver) == [list(range(1000)), list(range(1000, 1500))]
    assert batch_id(receiver, 0) != batch_id(receiver, 1)
    row = hook.row
    assert row is not None
    assert (row.worker, row.lease_time, row.failures) == (None, None, 0)
