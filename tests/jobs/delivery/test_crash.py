"""Killing a worker loses nothing and duplicates at most the message in flight (docs/crash-safety.md)."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from app.clock import now, uptime
from app.db.database import Transaction
from app.db.queue import claim_due
from app.sends.delivery import connections, dispatcher
from app.sends.delivery import drain as drain_module
from app.sends.delivery.claim import LEASE
from app.sends.delivery.drain import drain
from app.sends.delivery.load import load
from app.sends.delivery.sender_worker import sender_worker_of
from app.sends.outcomes.attempt_result import AttemptResult, Journal, journal_folder, scan_journals
from app.sends.outcomes.recovery import recover_expired_leases
from app.sends.outcomes.write import write_outcomes
from app.services import Services
from app.transports.base import DeliveryResult
from tests.jobs.delivery import drainer
from tests.jobs.delivery.conftest import Changed, StartDrain, events, fail_writing
from tests.jobs.delivery.test_fairness import addresses, take
from tests.support.clocks import ClockAhead
from tests.support.forked import ForkedProcess
from tests.support.rows import Rows
from tests.support.servers import PATIENCE, wait_until
from tests.unit.transports.mailserver import MailServer

ACCEPTED = DeliveryResult.accepted("250 2.0.0 ok", "2.0.0")


class Killer(MailServer):
    """Kills the worker at the n-th occurrence of a command (`MAIL`, `DATA` or `.`)."""

    def __init__(self) -> None:
        super().__init__()
        self.worker: ForkedProcess | None = None
        self.kill_at: tuple[str, int] | None = None
        self._starting = threading.Lock()
        self._seen: Counter[str] = Counter()

    def kill(self, worker: Services, command: str, count: int) -> int | None:
        """Kills a draining process at that point; returns its exit status."""
        with self._starting:  # it may reach the command before its id is known here
            self._seen.clear()
            self.kill_at = (command, count)
            self.worker = start_process(worker)
        return self.worker.wait()

    def scripted(self, step: str) -> str | None:
        with self._starting:
            self._seen[step] += 1
            if self.kill_at == (step, self._seen[step]) and self.worker:
                os.kill(self.worker.pid, signal.SIGKILL)
                self.worker.wait()
        return super().scripted(step)


@pytest.fixture
def killer() -> Iterator[Killer]:
    with Killer() as server:
        yield server


def start_process(worker: Services) -> ForkedProcess:
    """Starts a separate process that drains once."""
    settings = worker.settings
    environ = {
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
        "DATA_DIR": str(settings.data_dir),
        "EMAIL_TRANSPORT_URL": settings.email_transport_url,
        "SEND_CONNECTIONS": str(settings.send_connections),
        "SECRET_KEY": settings.secret_key,
    }
    return ForkedProcess(settings.data_dir.parent / "log", drainer.main, environ)


def times_received(server: MailServer) -> Counter[str]:
    return Counter(mail.recipients[0] for mail in server.mails)


@pytest.mark.parametrize("command", ["MAIL", "DATA"])
def test_a_kill_before_the_end_of_a_message_duplicates_nothing(
    rows: Rows, make_worker: Changed, killer: Killer, command: str
) -> None:
    """Accepted messages are in the journal before the next message begins; the unfinished one is sent again."""
    rows.add_webhook()
    ids = rows.add_send(addresses(12))
    worker = make_worker(email_transport_url=killer.url(), send_connections=1)
    assert killer.kill(worker, command, 8) == -signal.SIGKILL
    assert len(killer.mails) == 7
    drain(worker)
    assert times_received(killer) == Counter(addresses(12))
    assert rows.states(ids) == ["delivered"] * 12
    assert rows.group_of(ids[0]).delivered == 12
    assert sorted(event["id"] for event in events(rows)) == ids
    message_ids = [mail.content.split(b"Message-ID: <")[1].split(b"@")[0].decode() for mail in killer.mails]
    assert sorted(message_ids) == sorted(rows.recipient(number).uuid for number in ids)


def test_a_kill_between_a_mail_and_its_copy_loses_no_copy(rows: Rows, make_worker: Changed, killer: Killer) -> None:
    """A mail and its copy count as one message in flight: without a journalled result both are sent again."""
    ids = rows.add_send(addresses(6), bcc_address="copy@acme.example")
    worker = make_worker(email_transport_url=killer.url(), send_connections=1)
    assert killer.kill(worker, "MAIL", 8) == -signal.SIGKILL
    cut = killer.mails[-1].recipients[0]
    assert (len(killer.mails), cut in addresses(6)) == (7, True)
    drain(worker)
    assert times_received(killer) == Counter([*addresses(6), cut, *["copy@acme.example"] * 6])
    assert rows.states(ids) == ["delivered"] * 6


def test_a_kill_after_the_end_of_a_message_duplicates_that_message_at_most(
    rows: Rows, make_worker: Changed, killer: Killer
) -> None:
    """The relay has the whole message and its answer never arrives: this message alone may be sent twice, with the same
    Message-ID."""
    ids = rows.add_send(addresses(30))
    worker = make_worker(email_transport_url=killer.url(), send_connections=2)
    for count in (3, 9):
        assert killer.kill(worker, ".", count) == -signal.SIGKILL
    killer.kill_at = None
    drain(worker)
    received = times_received(killer)
    assert set(received) == set(addresses(30))
    assert received.total() - 30 <= 2 * worker.settings.send_connections
    assert max(received.values()) <= 3
    assert rows.states(ids) == ["delivered"] * 30
    assert rows.group_of(ids[0]).delivered == 30


def claim_rows(worker: Services, rows: Rows, name: str, count: int = 1) -> list[int]:
    """Rows claimed by a worker of that name."""
    ids = rows.add_send(addresses(count, name))
    assert len(take(worker, count, worker=name)) == count
    return ids


def attempt_result(recipient_id: int, attempt: int = 1, **changes: Any) -> AttemptResult:
    return AttemptResult(**{
        "recipient_id": recipient_id, "attempt": attempt, "address": "x@example.com", "moment": now(),
        "result": ACCEPTED, **changes,
    })  # fmt: skip


def test_recovery_from_a_dead_worker_of_this_machine_does_not_wait_for_its_lease(rows: Rows, worker: Services) -> None:
    """The journal of a dead worker is not locked any more. Results in it count, and the other rows are due at once."""
    folder = journal_folder(worker.settings)
    sent, begun = claim_rows(worker, rows, "dead", 2)
    journal = Journal(folder, "dead")
    journal.append(attempt_result(sent))
    recover_expired_leases(worker)
    assert rows.states([sent, begun]) == ["sending", "sending"]
    journal.close()
    recover_expired_leases(worker)
    assert rows.states([sent, begun]) == ["delivered", "queued"]
    assert [step for step, _ in rows.steps(begun)] == ["recovered"]
    assert rows.recipient(begun).due_time <= now()
    assert list(folder.iterdir()) == []


def test_a_journal_of_an_earlier_boot_is_replayed_before_its_leases_are_taken_over(
    rows: Rows, worker: Services
) -> None:
    """The machine was started anew: whatever the lock says, and long before the lease ends, its worker is dead."""
    name = "host-1-0123456789ab0a1b2c3d"
    sent, begun = claim_rows(worker, rows, name, 2)
    folder = journal_folder(worker.settings)
    journal = Journal(folder, name)
    journal.append(attempt_result(sent))
    recover_expired_leases(worker)
    assert rows.states([sent, begun]) == ["delivered", "queued"]
    assert list(folder.iterdir()) == []
    journal.close()


def test_a_dead_worker_of_another_machine_is_recognised_by_its_expired_lease(rows: Rows, worker: Services) -> None:
    """The journal of the dead worker is on the other machine."""
    (ann,) = claim_rows(worker, rows, "elsewhere")
    recover_expired_leases(worker)
    assert rows.states([ann]) == ["sending"]
    rows.change([ann], lease_time=now())
    recover_expired_leases(worker)
    assert rows.states([ann]) == ["queued"]


def test_the_journal_of_a_stalled_worker_is_read_before_its_rows_are_requeued(rows: Rows, worker: Services) -> None:
    """A stalled worker's lease expires while the worker still runs. Messages that its journal records as sent are not
    sent again."""
    sent, begun = claim_rows(worker, rows, "stalled", 2)
    journal = Journal(journal_folder(worker.settings), "stalled")
    journal.append(attempt_result(sent))
    rows.change([sent, begun], lease_time=now())
    recover_expired_leases(worker)
    assert rows.states([sent, begun]) == ["delivered", "queued"]
    with scan_journals(journal_folder(worker.settings)) as journals:
        assert [(journal.worker, journal.dead) for journal in journals] == [("stalled", False)]
    journal.close()


@pytest.fixture
def lease_clock(monkeypatch: pytest.MonkeyPatch) -> ClockAhead:
    """The clock by which dispatchers know that leases end."""
    clock = ClockAhead()
    monkeypatch.setattr(dispatcher, "uptime", clock.uptime)
    return clock


def test_a_worker_that_was_suspended_begins_no_message_of_its_old_batch(
    rows: Rows,
    make_worker: Changed,
    mail_server: MailServer,
    monkeypatch: pytest.MonkeyPatch,
    lease_clock: ClockAhead,
) -> None:
    """The lease of a suspended worker may have expired, and other workers may have sent its rows. The worker sends
    neither the next message nor the pipelined one, and all rows are requeued."""
    monkeypatch.setattr(connections, "STEADY_REPLY", PATIENCE)  # so that it pipelines, however slow the machine is
    worker = make_worker(send_connections=1)
    ids = rows.add_send(addresses(6))
    sender_worker = sender_worker_of(worker)
    with worker.database.read() as session:
        recipients = load(session, take(worker, 6, worker=sender_worker.name), worker.settings)
    sending = dispatcher.Dispatcher(sender_worker)
    settled, returned = set[int](), set[int]()

    def is_all_back() -> bool:
        settled.update(result.recipient_id for result in sending.collect(0.05))
        returned.update(sending.withdraw(0))
        return len(sending) == 0

    with mail_server.hold_answers(after=1):
        sending.enqueue(recipients)
        wait_until(lambda: len(mail_server.mails) == 1 and mail_server.unanswered, "the second is in flight")
        lease_clock.ahead = LEASE - dispatcher.LEASE_MARGIN
    wait_until(is_all_back, "nothing is in flight")
    assert settled | returned == set(ids)
    assert len(settled) == len(mail_server.mails) == 2


def test_a_lease_counts_from_before_the_statement_that_wrote_it(
    rows: Rows, worker: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the database takes to write a lease, the worker does not believe that it has longer."""
    began = list[float]()

    def noting(*arguments: Any, **named: Any) -> Any:
        began.append(uptime())
        return claim_due(*arguments, **named)

    monkeypatch.setattr("app.sends.delivery.claim.claim_due", noting)
    rows.add_send(addresses(2))
    claimed = take(worker, 2)
    assert len(claimed) == 2
    assert all(recipient.lease_end - LEASE <= began[0] for recipient in claimed)


@pytest.mark.parametrize("case", [(LEASE - dispatcher.LEASE_MARGIN / 2, 1), (LEASE, 0)])
def test_a_renewal_extends_only_leases_that_have_not_ended(
    rows: Rows, worker: Services, mail_server: MailServer, lease_clock: ClockAhead, case: tuple[float, int]
) -> None:
    """Whoever was suspended until after the end of the lease renews nothing: another worker may have the message."""
    rows.add_send(addresses(1))
    sender_worker = sender_worker_of(worker)
    with worker.database.read() as session:
        recipients = load(session, take(worker, 1, worker=sender_worker.name), worker.settings)
    sending = dispatcher.Dispatcher(sender_worker)
    lease_clock.ahead, sent = case
    sending.enqueue(recipients)
    assert sending.queued() == 1  # a lease that ends within the margin
    sending.extend_leases(lease_clock.uptime() + LEASE, sending.recipient_ids)
    sending.assist()
    if not sent:
        sending.withdraw(0)
    wait_until(lambda: bool(sending.collect(0.05)) or not sending, "it is sent or withdrawn")
    assert len(mail_server.mails) == sent


def test_a_truncated_journal_line_is_skipped(rows: Rows, worker: Services) -> None:
    """The process died, or the disk was full, in the middle of a line."""
    first, second = claim_rows(worker, rows, "dead", 2)
    folder = journal_folder(worker.settings)
    journal = Journal(folder, "dead")
    journal.append(attempt_result(first))
    journal.close()
    path = folder / "dead.journal"
    path.write_bytes(path.read_bytes() + attempt_result(second).line()[:40])
    recover_expired_leases(worker)
    assert rows.states([first, second]) == ["delivered", "queued"]


def test_journal_results_of_rows_that_moved_on_are_skipped(rows: Rows, worker: Services) -> None:
    """A journal may contain results of attempts that were written long ago."""
    (settled,) = rows.add_send([{"email": "ann@example.com", "state": "delivered", "attempts": 1}])
    journal = Journal(journal_folder(worker.settings), "dead")
    journal.append(attempt_result(settled))
    journal.close()
    recover_expired_leases(worker)
    assert rows.steps(settled) == []


def test_a_drained_journal_is_empty(rows: Rows, worker: Services) -> None:
    """Results that are in the database are removed from the journal."""
    rows.add_send(addresses(5))
    drain(worker)
    with scan_journals(journal_folder(worker.settings)) as journals:
        assert [(journal.dead, journal.results()) for journal in journals] == [(False, [])]


def test_a_stop_finishes_messages_in_flight_and_requeues_the_rest(
    rows: Rows, make_worker: Changed, mail_server: MailServer, start_drain: StartDrain
) -> None:
    """After SIGTERM nothing is lost, nothing stays claimed, and nothing is sent twice."""
    worker = make_worker(send_connections=2)
    ids = rows.add_send(addresses(100))
    with mail_server.hold_answers(after=2):
        draining = start_drain(worker)
        wait_until(lambda: len(mail_server.mails) == 2 and mail_server.unanswered, "some are sent, some in flight")
        worker.stopping.set()
        wait_until(lambda: "queued" in rows.states(ids), "the rest is requeued")
    draining.join(PATIENCE)
    assert not draining.is_alive()
    states = Counter(rows.states(ids))
    assert set(states) == {"queued", "delivered"}
    assert states["delivered"] == len(mail_server.mails)
    drain(make_worker())
    assert times_received(mail_server) == Counter(addresses(100))


def test_a_short_outage_of_the_database_duplicates_nothing(
    rows: Rows, worker: Services, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempt results that cannot be written are kept and written later."""
    failures = [1, 2]

    def failing(*arguments: Any) -> Any:
        if failures:
            failures.pop()
            raise OperationalError("write_outcomes", {}, Exception("the server went away"))
        return write_outcomes(*arguments)

    monkeypatch.setattr(drain_module, "write_outcomes", failing)
    monkeypatch.setattr(drain_module, "DATABASE_RETRY_DELAY", 0.05)
    ids = rows.add_send(addresses(10))
    drain(worker)
    assert rows.states(ids) == ["delivered"] * 10
    assert times_received(mail_server) == Counter(addresses(10))


def test_a_claim_without_an_answer_to_its_commit_is_looked_up(
    rows: Rows, worker: Services, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other worker may take the rows, and this one does not know them: it looks them up instead of waiting for the
    end of its lease."""
    commit = Transaction.commit

    def unanswered(transaction: Transaction) -> None:
        commit(transaction)
        monkeypatch.setattr(Transaction, "commit", commit)
        raise OperationalError("COMMIT", {}, Exception("the connection is lost"))

    monkeypatch.setattr(drain_module, "DATABASE_RETRY_DELAY", 0.05)
    ids = rows.add_send(addresses(10))
    monkeypatch.setattr(Transaction, "commit", unanswered)
    drain(worker)
    assert rows.states(ids) == ["delivered"] * 10
    assert [rows.recipient(recipient_id).attempts for recipient_id in ids] == [1] * 10
    assert times_received(mail_server) == Counter(addresses(10))


def test_a_drain_that_fails_leaves_its_results_to_the_next_drain(
    rows: Rows, worker: Services, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails in the loop, sent messages are not sent again."""

    def failing(*_: Any) -> Any:
        raise RuntimeError("a fault")

    ids = rows.add_send(addresses(3))
    with monkeypatch.context() as patch:
        fail_writing(patch, failing)
        with pytest.raises(RuntimeError):
            drain(worker)
    assert rows.states(ids) == ["sending"] * 3
    drain(worker)
    assert rows.states(ids) == ["delivered"] * 3
    assert times_received(mail_server) == Counter(addresses(3))


def test_the_lease_of_a_message_in_flight_is_renewed(
    rows: Rows, worker: Services, mail_server: MailServer, start_drain: StartDrain, drain_clock: ClockAhead
) -> None:
    """However slow the relay is, no other worker takes the row."""
    (ann,) = rows.add_send(["ann@example.com"])
    with mail_server.hold_answers():
        draining = start_drain(worker)
        wait_until(lambda: mail_server.unanswered, "the message is in flight")
        first = rows.recipient(ann).lease_time
        drain_clock.ahead = LEASE / 4
        wait_until(lambda: rows.recipient(ann).lease_time != first, "the lease is renewed")
    draining.join(PATIENCE)
    assert rows.states([ann]) == ["delivered"]
    assert rows.recipient(ann).attempts == 1
