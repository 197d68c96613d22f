"""Scheduled messages leave when their `send_at` has come, evenly over the accounts, and not before
(docs/scheduling.md)."""

from __future__ import annotations

from datetime import timedelta
from email.utils import parsedate_to_datetime

import pytest

from app.clock import now, this_second
from app.db.models import BlockedAddress
from app.errors import ServiceError
from app.maintenance.sweeps import SendQueueSweep
from app.privacy.forget import forget
from app.sends import scheduled
from app.sends.cancel import CANCELLABLE, cancel_all, cancel_recipient
from app.sends.delivery import returning as returning_messages
from app.sends.delivery.claim import claim
from app.sends.delivery.drain import drain
from app.sends.delivery.returning import ReturningMessages
from app.sends.holds.held import HeldMessages, hold_messages
from app.sends.holds.release import release_messages
from app.sends.outcomes.requeue import requeue, requeue_all
from app.sends.pauses.pause import Subject, find_pause, pause, resume
from app.services import Services
from tests.jobs.delivery.conftest import Changed, parsed
from tests.support.cases import each
from tests.support.killed import killed_at
from tests.support.races import meanwhile
from tests.support.rows import Rows
from tests.support.statements import StatementCounter
from tests.unit.transports.mailserver import MailServer

TOMORROW = timedelta(days=1)
AGO = timedelta(minutes=1)


def finds_work(worker: Services) -> bool:
    with worker.database.read() as session:
        return SendQueueSweep().finds_work(session)


def arrived(mail_server: MailServer) -> list[str]:
    return sorted(mail.recipients[0] for mail in mail_server.mails)


def test_a_scheduled_message_leaves_at_its_time_and_not_before(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """The scheduler finds it: no wake-up and no memory of a process is needed."""
    (recipient_id,) = rows.add_send(["ann@people.example"])
    rows.schedule([recipient_id], this_second() + TOMORROW)
    assert not finds_work(worker)
    drain(worker)
    assert (rows.states([recipient_id]), mail_server.mails) == (["scheduled"], [])
    rows.schedule([recipient_id], this_second() - AGO)
    assert finds_work(worker)
    drain(worker)
    assert (rows.states([recipient_id]), arrived(mail_server)) == (["delivered"], ["ann@people.example"])
    assert [step for step, _ in rows.steps(recipient_id)] == ["sent"]
    assert not finds_work(worker)


def test_the_date_of_a_mail_and_its_retry_period_are_those_of_its_time(
    rows: Rows, make_worker: Changed, mail_server: MailServer
) -> None:
    worker = make_worker(retry_period=3600)
    accepted, send_at = now() - timedelta(days=60), this_second() - timedelta(minutes=30)
    (recipient_id,) = rows.add_send(["ann@people.example"], accepted=accepted)
    rows.schedule([recipient_id], send_at)
    mail_server.reply("ann@people.example", "451 4.7.1 Try again later")
    drain(worker)
    assert rows.states([recipient_id]) == ["queued"]
    assert rows.recipient(recipient_id).due_time <= send_at + timedelta(seconds=3600)
    rows.make_due([recipient_id])
    drain(worker)
    (mail,) = mail_server.mails
    assert parsedate_to_datetime(str(parsed(mail.content)["Date"])) == send_at


def test_many_of_one_account_do_not_delay_the_one_of_another(
    rows: Rows, other_id: int, worker: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled, "SLICE_SIZE", 4)
    monkeypatch.setattr(returning_messages, "SECONDS_BETWEEN_SLICES", 0.0)
    ids = rows.add_send([f"{number}@people.example" for number in range(9)])
    rows.schedule(ids, this_second() - AGO)
    others = Rows(worker, other_id)
    (theirs,) = others.add_send(["ann@people.example"])
    others.schedule([theirs], this_second() - timedelta(seconds=1))
    returning = ReturningMessages(worker.database)
    returning.begin()
    assert returning.queue_slices() == 3
    assert others.states([theirs]) == ["queued"]
    assert rows.states(ids) == ["queued"] * 2 + ["scheduled"] * 7
    assert [returning.queue_slices(worker.stopping) for _ in range(3)] == [4, 3, 0]
    assert (rows.states(ids), returning.has_left) == (["queued"] * 9, False)


def test_a_slice_takes_as_many_statements_for_one_message_as_for_many(rows: Rows, worker: Services) -> None:
    counts = []
    for number in (1, 30):
        ids = rows.add_send([f"{place}@people.example" for place in range(number)])
        rows.schedule(ids, this_second() - AGO)
        returning = ReturningMessages(worker.database)
        returning.begin()
        with StatementCounter(worker.database.engine) as counter:
            assert returning.queue_slices() == number
        counts.append(counter.count)
    assert counts[0] == counts[1]


def test_a_worker_that_is_killed_at_any_statement_loses_and_doubles_nothing(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    ids = rows.add_send([f"{number}@people.example" for number in range(3)])
    rows.schedule(ids, this_second() - AGO)
    for number in range(1, 8):
        returning = ReturningMessages(worker.database)
        returning.begin()
        with killed_at(worker.database.engine, number):
            returning.queue_slices()
        assert set(rows.states(ids)) <= {"scheduled", "queued"}
    drain(worker)
    assert (rows.states(ids), len(mail_server.mails)) == (["delivered"] * 3, 3)


def test_what_has_changed_by_then_decides(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    """Suppressions are those of the time at which it is due."""
    (recipient_id,) = rows.add_send(["ann@people.example"])
    rows.schedule([recipient_id], this_second() + TOMORROW)
    rows.add(BlockedAddress, kind="email", address="ann@people.example", reason="x", creation_time=this_second())
    rows.schedule([recipient_id], this_second() - AGO)
    drain(worker)
    recipient = rows.recipient(recipient_id)
    assert (recipient.state, recipient.reason, mail_server.mails) == ("failed", "blocked", [])


def test_a_pause_keeps_a_scheduled_message_once_it_is_due(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    subject = Subject(rows.account_id)
    with worker.database.write() as transaction:
        pause(transaction, subject)
    (recipient_id,) = rows.add_send(["ann@people.example"])
    rows.schedule([recipient_id], this_second() - AGO)
    drain(worker)
    assert rows.states([recipient_id]) == ["paused"]
    with worker.database.write() as transaction:
        resume(transaction, find_pause(transaction, subject))
    drain(worker)
    assert (rows.states([recipient_id]), len(mail_server.mails)) == (["delivered"], 1)


def test_a_restore_holds_it_and_a_release_schedules_it_again(rows: Rows, worker: Services) -> None:
    later, due = rows.add_send(["later@people.example"]), rows.add_send(["due@people.example"])
    rows.schedule(later, this_second() + TOMORROW)
    rows.schedule(due, this_second() + TOMORROW)
    with worker.database.engine.begin() as connection:
        hold_messages(connection, now(), now())
    assert [rows.recipient(row_id).held_state for row_id in (*later, *due)] == ["scheduled"] * 2
    rows.change(due, due_time=now() - AGO)
    release_messages(worker, HeldMessages(rows.account_id), lambda _: None)
    assert rows.states([*later, *due]) == ["scheduled", "queued"]


def test_forgetting_its_recipient_ends_it(rows: Rows, worker: Services) -> None:
    (recipient_id,) = rows.add_send(["ann@people.example"])
    rows.schedule([recipient_id], this_second() + TOMORROW)
    assert forget(worker, [rows.account_id], "email", "ann@people.example", wait=0).is_complete
    recipient = rows.recipient(recipient_id)
    assert (recipient.state, recipient.reason) == ("failed", "forgotten")


# Cancelling: decided under the lock of the queue entry.


def cancelled(rows: Rows, *ids: int) -> list[int]:
    with rows.services.database.write() as transaction:
        return list(cancel_all(transaction, rows.services.settings, rows.account_id, ids).ids)


@each("state", [state.value for state in CANCELLABLE])
def test_a_cancelled_message_never_leaves(rows: Rows, worker: Services, mail_server: MailServer, state: str) -> None:
    (recipient_id,) = rows.add_send(["ann@people.example"])
    rows.change([recipient_id], state=state)
    assert cancelled(rows, recipient_id) == [recipient_id]
    drain(worker)
    recipient = rows.recipient(recipient_id)
    assert (recipient.state, recipient.reason, mail_server.mails) == ("failed", "cancelled", [])
    assert rows.steps(recipient_id) == [("failed", "cancelled")]
    assert rows.group_of(recipient_id).failed_contacts == 1


def test_what_waits_for_another_attempt_can_be_cancelled(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    (recipient_id,) = rows.add_send(["ann@people.example"])
    mail_server.reply("ann@people.example", "451 4.7.1 Try again later")
    drain(worker)
    assert cancelled(rows, recipient_id) == [recipient_id]
    recipient = rows.recipient(recipient_id)
    assert (recipient.state, recipient.reason, recipient.attempts) == ("failed", "cancelled", 1)


def test_a_message_that_a_sender_has_claimed_is_not_cancelled(rows: Rows, worker: Services) -> None:
    (recipient_id,) = rows.add_send(["ann@people.example"])
    with worker.database.write() as transaction:
        assert [recipient.id for recipient in claim(transaction, "worker", size=10, after=0)] == [recipient_id]
    with pytest.raises(ServiceError) as refused, worker.database.write() as transaction:
        cancel_recipient(transaction, worker.settings, rows.account_id, recipient_id)
    assert refused.value.code == "recipient_not_cancellable"
    assert rows.states([recipient_id]) == ["sending"]


def test_of_a_claim_and_a_cancelling_at_the_same_moment_one_wins(rows: Rows, worker: Services) -> None:
    """The claim holds the entry; the cancelling waits for it, and finds that it is too late. The other way round, the
    claim passes over what is being cancelled."""
    first, second = rows.add_send(["first@people.example"]), rows.add_send(["second@people.example"])
    result: list[list[int]] = []
    with worker.database.write() as transaction:
        assert [recipient.id for recipient in claim(transaction, "worker", size=1, after=0)] == first
        waiting = meanwhile(worker, lambda: result.append(cancelled(rows, *first)))
        waiting.__enter__()
    waiting.__exit__(None, None, None)
    assert (result, rows.states(first)) == ([[]], ["sending"])
    assert cancelled(rows, *second) == second
    with worker.database.write() as transaction:
        assert claim(transaction, "worker", size=10, after=0) == []


def test_a_process_that_is_killed_while_it_cancels_leaves_the_message_or_its_outcome(
    rows: Rows, worker: Services
) -> None:
    """At whichever statement it dies, the message waits as before, or is cancelled with its event and its count."""
    rows.add_webhook()
    (recipient_id,) = rows.add_send(["ann@people.example"])
    rows.schedule([recipient_id], this_second() + TOMORROW)
    number = 0
    while rows.states([recipient_id]) == ["scheduled"]:
        number += 1
        assert (rows.payloads(), rows.group_of(recipient_id).failed_contacts) == ([], 0)
        with killed_at(worker.database.engine, number):
            cancelled(rows, recipient_id)
    assert rows.states([recipient_id]) == ["failed"]
    assert number > 5
    (payload,) = rows.payloads()
    assert '"fail_reason":"cancelled"' in payload.replace(" ", "")
    assert rows.group_of(recipient_id).failed_contacts == 1


def test_cancelling_takes_as_many_statements_for_one_message_as_for_many(rows: Rows, worker: Services) -> None:
    counts = []
    for number in (1, 30):
        ids = rows.add_send([f"{place}@people.example" for place in range(number)])
        with StatementCounter(worker.database.engine) as counter:
            assert cancelled(rows, *ids) == ids
        counts.append(counter.count)
    assert counts[0] == counts[1]


def test_a_cancelled_message_cannot_be_retried(rows: Rows, worker: Services) -> None:
    (recipient_id,) = rows.add_send(["ann@people.example"])
    cancelled(rows, recipient_id)
    uuid = rows.recipient(recipient_id).uuid
    with pytest.raises(ServiceError) as refused, worker.database.write() as transaction:
        requeue(transaction, uuid)
    assert refused.value.errors[0].detail == "it was cancelled"
    with worker.database.write() as transaction:
        assert [*requeue_all(transaction, [recipient_id]).ids] == []
