"""Rows that another transaction has locked for long keep only their own outcomes waiting (PostgreSQL)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from app.clock import now
from app.db.models import Account, QueueEntry, Recipient
from app.sends.delivery import drain as drain_module
from app.sends.delivery.claim import LEASE
from app.sends.delivery.drain import PendingOutcomes, drain
from app.sends.outcomes import write
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.recovery import MIRROR_PATIENCE, recover_expired_leases
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import write_bisecting
from app.services import Services
from app.transports.base import DeliveryResult
from tests.jobs.delivery.conftest import Changed, StartDrain
from tests.jobs.delivery.test_crash import attempt_result, claim_rows
from tests.jobs.delivery.test_fairness import addresses, take
from tests.jobs.delivery.test_lost_hosts import mirror_results
from tests.support.clocks import ClockAhead
from tests.support.rows import Rows
from tests.support.servers import PATIENCE, wait_until
from tests.support.tenants import unique
from tests.unit.transports.mailserver import MailServer

pytestmark = pytest.mark.postgresql("SQLite has no locks of rows")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are noticed soon."""
    monkeypatch.setattr(drain_module, "LOCK_PATIENCE", 0.1)
    for module in (write, drain_module):
        monkeypatch.setattr(module, "LOCK_SECONDS", 0.02)
    monkeypatch.setattr(drain_module, "LOCKED_RETRY_DELAY", 0.1)


@contextmanager
def locked(services: Services, key: Any, ids: Sequence[int]) -> Iterator[None]:
    """A transaction of somebody else, which has locked the rows with these ids."""
    with services.database.write() as transaction:
        assert len(transaction.scalars(select(key).where(key.in_(ids)).with_for_update()).all()) == len(ids)
        yield


def arrived(mail_server: MailServer) -> list[str]:
    return sorted(mail.recipients[0] for mail in mail_server.mails)


@pytest.mark.parametrize("key", [Recipient.id, QueueEntry.recipient_id, Account.id])
def test_an_outcome_whose_rows_are_locked_keeps_no_other_account_waiting_and_is_written_once(
    rows: Rows, other_id: int, mail_server: MailServer, start_drain: StartDrain, key: Any
) -> None:
    worker = rows.services
    theirs = Rows(worker, other_id)
    with mail_server.hold_answers():
        (ann,) = rows.add_send(["ann@example.com"])
        draining = start_drain(worker)
        wait_until(lambda: mail_server.unanswered, "the message is in flight")
        lock = locked(worker, key, [rows.account_id if key is Account.id else ann])
        lock.__enter__()
    for name in ("bob", "cid"):
        (other,) = theirs.add_send([f"{name}@example.com"])
        wait_until(lambda other=other: theirs.states([other]) == ["delivered"], f"{name} is delivered")
    assert (rows.states([ann]), draining.is_alive()) == (["sending"], True)
    lock.__exit__(None, None, None)
    draining.join(PATIENCE)
    assert rows.states([ann]) == ["delivered"]
    assert [step for step, _ in rows.steps(ann)] == ["sent"]
    assert rows.group_of(ann).delivered == 1
    assert arrived(mail_server) == ["ann@example.com", "bob@example.com", "cid@example.com"]


def test_leases_of_outcomes_that_wait_for_a_lock_are_renewed_also_after_the_time_slice(
    rows: Rows, worker: Services, start_drain: StartDrain, drain_clock: ClockAhead, mail_server: MailServer
) -> None:
    with mail_server.hold_answers():
        (ann,) = rows.add_send(["ann@example.com"])
        draining = start_drain(worker)
        wait_until(lambda: mail_server.unanswered, "the message is in flight")
        lock = locked(worker, Recipient.id, [ann])
        lock.__enter__()
    for ahead in (LEASE / 4 + 1, drain_module.TIME_SLICE + drain_module.MAX_WAIT + LEASE):
        before = rows.recipient(ann).lease_time
        drain_clock.ahead = ahead
        wait_until(lambda before=before: rows.recipient(ann).lease_time > before, "the lease is renewed")
    (text,) = rows.add_send(["61411111111"], type="sms")
    wait_until(lambda: rows.states([text]) == ["sent"], "the text is sent")
    assert rows.states([ann]) == ["sending"]
    lock.__exit__(None, None, None)
    draining.join(PATIENCE)
    assert (rows.states([ann]), len(mail_server.mails)) == (["delivered"], 1)


def test_a_sender_that_stops_leaves_outcomes_that_wait_for_a_lock_to_the_next(
    rows: Rows, make_worker: Changed, start_drain: StartDrain, mail_server: MailServer
) -> None:
    """Who sends nothing again before they are written, although the leases have ended."""
    worker, other = make_worker(), make_worker()
    with mail_server.hold_answers():
        (ann,) = rows.add_send(["ann@example.com"])
        draining = start_drain(worker)
        wait_until(lambda: mail_server.unanswered, "the message is in flight")
        lock = locked(worker, Recipient.id, [ann])
        lock.__enter__()
    worker.stopping.set()
    draining.join(PATIENCE)
    assert not draining.is_alive()
    with other.database.write() as transaction:
        transaction.get_one(QueueEntry, ann).lease_time = now() - timedelta(seconds=1)
    drain(other)
    assert rows.states([ann]) == ["sending"]
    lock.__exit__(None, None, None)
    drain(other)
    assert rows.states([ann]) == ["delivered"]
    assert [step for step, _ in rows.steps(ann)] == ["sent"]
    assert len(mail_server.mails) == 1


def test_messages_of_a_lost_host_wait_for_its_mirrored_results_as_long_as_rows_are_locked(
    rows: Rows, worker: Services
) -> None:
    name = unique("elsewhere")
    sent, begun = claim_rows(worker, rows, name, 2)
    mirror_results(worker, name, attempt_result(sent))
    rows.change([sent, begun], lease_time=now() - MIRROR_PATIENCE - timedelta(seconds=1))
    with locked(worker, Recipient.id, [sent]):
        recover_expired_leases(worker)
        assert rows.states([sent, begun]) == ["sending", "sending"]
    recover_expired_leases(worker)
    assert rows.states([sent, begun]) == ["delivered", "queued"]


def test_all_other_results_of_a_lost_host_are_written_at_once(rows: Rows, worker: Services) -> None:
    """More rows are locked than bisecting waits for in one pass."""
    name = unique("elsewhere")
    ids = claim_rows(worker, rows, name, 40)
    mirror_results(worker, name, *map(attempt_result, ids))
    rows.change(ids, lease_time=now() - MIRROR_PATIENCE - timedelta(seconds=1))
    with locked(worker, Recipient.id, ids[::2]):
        recover_expired_leases(worker)
        assert rows.states(ids) == ["sending", "delivered"] * 20


def test_bisecting_ends_after_some_waits_and_goes_on_with_what_was_not_tried(rows: Rows, worker: Services) -> None:
    """Every second row is locked, so that not all can be found at once."""
    rows.add_send(addresses(40))
    results = [
        AttemptResult(recipient.id, 1, recipient.email, now(), DeliveryResult.accepted("250 ok"))
        for recipient in take(worker, 40, worker="w")
    ]
    ids = [result.recipient_id for result in results]
    rules, calls = RetryRules.of(worker.settings), 0
    with locked(worker, Recipient.id, ids[::2]):
        while rows.states(ids[1::2]) != ["delivered"] * 20:
            left = write_bisecting(worker.database, "w", results, rules).left
            assert len(left) < len(results) or calls > 1
            results, calls = left, calls + 1
        assert rows.states(ids[::2]) == ["sending"] * 20
    assert calls > 1
    assert {*ids[::2]} <= {result.recipient_id for result in results}
    assert write_bisecting(worker.database, "w", results, rules) == (20, [])
    assert rows.states(ids) == ["delivered"] * 40


def test_released_rows_that_are_locked_are_released_later(rows: Rows, worker: Services) -> None:
    rows.add_send(addresses(4))
    released, waiting, postponed, renewed = (recipient.id for recipient in take(worker, 4, worker="w"))
    pending = PendingOutcomes(worker.database, "w", RetryRules.of(worker.settings))
    pending.released, pending.postponed = [released, waiting], {postponed: now() + timedelta(seconds=60)}
    with locked(worker, QueueEntry.recipient_id, [waiting, postponed]):
        assert pending.write([renewed, waiting]) == {renewed}
        assert rows.states([released, waiting, postponed, renewed]) == ["queued", "sending", "sending", "sending"]
        assert (pending.ids, sorted(pending.all_ids)) == ([], sorted([waiting, postponed]))
    pending.retry_time = 0.0
    pending.write(())
    assert rows.states([waiting, postponed]) == ["queued", "queued"]
    assert not pending.all_ids
