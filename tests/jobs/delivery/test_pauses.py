"""A pause keeps messages of an account, to a list or to a domain back, and lets them go afterwards, each once and in
its order (docs/waiting.md#pauses)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from app.clock import now
from app.contacts.delete import delete_list
from app.db.models import Account, QueueEntry, RecipientStep, SendPause
from app.errors import ServiceError
from app.inbound.effect import Effect
from app.inbound.email.receive import receive_email
from app.inbound.receipts import Receipt, take_receipt
from app.lists.find import get_list
from app.maintenance.account_deletion import delete_account
from app.maintenance.sweeps import SendQueueSweep
from app.privacy.forget import forget
from app.sends.delivery import drain as drain_module
from app.sends.delivery import returning as returning_messages
from app.sends.delivery.claim import claim
from app.sends.delivery.drain import drain
from app.sends.delivery.postponed import put_aside
from app.sends.delivery.returning import ReturningMessages
from app.sends.delivery.sender_worker import sender_worker_of
from app.sends.outcomes.requeue import requeue
from app.sends.pauses import release as releasing
from app.sends.pauses.pause import Subject, find_pause, pause, resume, subject_of
from app.services import Services
from app.tracking.tokens import return_path
from tests.jobs.delivery.conftest import events, texts
from tests.jobs.delivery.test_outcomes import LONG_AGO, counters
from tests.support.mail_reports import delivery_failure
from tests.support.races import meanwhile
from tests.support.rows import FROM, Rows
from tests.support.statements import StatementCounter
from tests.unit.transports.mailserver import DROP, MailServer

each = pytest.mark.parametrize
Pausing = Callable[..., Subject]


@pytest.fixture
def pausing(rows: Rows) -> Pausing:
    """`pausing(list_id=…)` pauses something of the account, `pausing(None, domain=…)` a domain everywhere."""

    def begin(account_id: int | None = rows.account_id, **of: Any) -> Subject:
        subject = Subject(account_id, **of)
        with rows.services.database.write() as transaction:
            pause(transaction, subject)
        return subject

    return begin


def go_on(services: Services, subject: Subject) -> None:
    """Ends the pause."""
    with services.database.write() as transaction:
        resume(transaction, find_pause(transaction, subject))


def pauses_left(services: Services) -> int:
    with services.database.read() as session:
        return len(session.scalars(select(SendPause.id)).all())


def arrived(mail_server: MailServer) -> list[str]:
    return [mail.recipients[0] for mail in mail_server.mails]


def test_nothing_of_a_paused_account_leaves_and_that_of_others_does(
    rows: Rows, other_id: int, worker: Services, mail_server: MailServer, pausing: Pausing
) -> None:
    subject = pausing()
    mails = rows.add_send([f"{number}@people.example" for number in range(3)])
    texts = rows.add_send(["61400000001"], type="sms")
    (theirs,) = Rows(worker, other_id).add_send(["ann@people.example"])
    drain(worker)
    assert rows.states([*mails, *texts, theirs]) == ["paused"] * 4 + ["delivered"]
    assert arrived(mail_server) == ["ann@people.example"]
    recipient = rows.recipient(mails[0])
    assert (recipient.attempts, recipient.worker, recipient.lease_time) == (0, None, None)
    assert rows.steps(mails[0]) == [("paused", "sending is paused for the account")]
    go_on(worker, subject)
    drain(worker)
    assert rows.states([*mails, *texts]) == ["delivered"] * 3 + ["sent"]
    assert sorted(arrived(mail_server)[1:]) == [f"{number}@people.example" for number in range(3)]
    assert [step for step, _ in rows.steps(mails[0])] == ["paused", "resumed", "sent"]
    assert rows.recipient(mails[0]).attempts == 1
    assert pauses_left(worker) == 0


def test_a_paused_list_keeps_only_its_own_messages_back(rows: Rows, worker: Services, pausing: Pausing) -> None:
    paused, other = rows.add_list(), rows.add_list()
    subject = pausing(list_id=paused)
    (mail,) = rows.add_send(["ann@people.example"], list_id=paused)
    (text,) = rows.add_send(["61400000001"], type="sms", list_id=paused)
    (elsewhere,) = rows.add_send(["ann@people.example"], list_id=other)
    (without,) = rows.add_send(["ann@people.example"])
    drain(worker)
    assert rows.states([mail, text, elsewhere, without]) == ["paused", "paused", "delivered", "delivered"]
    assert rows.steps(mail) == [("paused", "sending is paused for the list")]
    go_on(worker, subject)
    drain(worker)
    assert rows.states([mail, text]) == ["delivered", "sent"]


def test_a_paused_domain_keeps_mail_to_it_back(rows: Rows, other_id: int, worker: Services, pausing: Pausing) -> None:
    """Only mail of the account is kept back. The domain may be spelled in any way, and the address may be that of a
    contact."""
    subject = pausing(domain="xn--bcher-kva.example")
    contact = rows.add_contact(list_id := rows.add_list(), "Named@Bücher.example")
    ids = rows.add_send(["ann@BÜCHER.example", {"contact_id": contact}], list_id=list_id)
    (below,) = rows.add_send(["ann@mail.bücher.example"])
    (text,) = rows.add_send(["61400000001"], type="sms")
    (theirs,) = Rows(worker, other_id).add_send(["ann@bücher.example"])
    drain(worker)
    assert rows.states([*ids, below, text, theirs]) == ["paused", "paused", "delivered", "sent", "delivered"]
    go_on(worker, subject)
    drain(worker)
    assert rows.states(ids) == ["delivered", "delivered"]


def test_a_domain_is_paused_for_all_accounts_but_not_for_tests(
    rows: Rows, other_id: int, worker: Services, pausing: Pausing
) -> None:
    subject = pausing(None, domain="people.example")
    others = Rows(worker, other_id)
    with worker.database.write() as transaction:
        transaction.get_one(Account, other_id).test_of = rows.account_id
    (own_id,), (captured,) = rows.add_send(["ann@people.example"]), others.add_send(["ann@people.example"])
    (elsewhere,) = rows.add_send(["ann@other.example"])
    drain(worker)
    assert rows.states([own_id, captured, elsewhere]) == ["paused", "delivered", "delivered"]
    go_on(worker, subject)
    drain(worker)
    assert rows.states([own_id]) == ["delivered"]


def test_messages_keep_their_place_and_those_that_are_due_later_wait(
    rows: Rows, worker: Services, pausing: Pausing
) -> None:
    subject = pausing()
    moment = now()
    (second,) = rows.add_send(["second@people.example"], accepted=moment - timedelta(minutes=1))
    (first,) = rows.add_send(["first@people.example"], accepted=moment - timedelta(minutes=2))
    (later,) = rows.add_send(["later@people.example"])
    drain(worker)
    rows.change([later], due_time=moment + timedelta(hours=1))
    assert rows.states([first, second, later]) == ["paused"] * 3
    go_on(worker, subject)
    (third,) = rows.add_send(["third@people.example"])
    returning = ReturningMessages(worker.database)
    returning.begin()
    assert (returning.queue_slices(), pauses_left(worker)) == (3, 0)
    with worker.database.write() as transaction:
        claimed = [recipient.id for recipient in claim(transaction, "worker", size=10, after=0)]
    assert (claimed, rows.states([later])) == ([first, second, third], ["queued"])


def test_one_that_two_pauses_concern_waits_for_both(rows: Rows, worker: Services, pausing: Pausing) -> None:
    whole, domain = pausing(), pausing(domain="people.example")
    (recipient_id,) = rows.add_send(["ann@people.example"])
    drain(worker)
    go_on(worker, whole)
    drain(worker)
    assert (rows.states([recipient_id]), pauses_left(worker)) == (["paused"], 1)
    go_on(worker, domain)
    drain(worker)
    assert rows.states([recipient_id]) == ["delivered"]
    assert [step for step, _ in rows.steps(recipient_id)] == ["paused", "resumed"] * 2 + ["sent"]


def test_a_list_and_a_domain_that_are_both_paused_let_a_message_go_once(
    rows: Rows, worker: Services, mail_server: MailServer, pausing: Pausing
) -> None:
    """The pause of the list ends first; and no attempt is counted before the one that sends it."""
    list_id = rows.add_list()
    list_pause, domain_pause = pausing(list_id=list_id), pausing(domain="people.example")
    both, only_list = rows.add_send(["both@people.example", "list@other.example"], list_id=list_id)
    (only_domain,) = rows.add_send(["domain@people.example"])
    ids = [both, only_list, only_domain]
    drain(worker)
    assert rows.states(ids) == ["paused"] * 3
    assert rows.recipient(both).pause_id == rows.recipient(only_list).pause_id
    go_on(worker, list_pause)
    drain(worker)
    assert (rows.states(ids), arrived(mail_server)) == (["paused", "delivered", "paused"], ["list@other.example"])
    again = rows.recipient(both)
    assert (again.attempts, again.worker, again.lease_time) == (0, None, None)
    assert (again.pause_id, pauses_left(worker)) == (rows.recipient(only_domain).pause_id, 1)
    go_on(worker, domain_pause)
    for _ in range(2):
        drain(worker)
    assert (rows.states(ids), pauses_left(worker)) == (["delivered"] * 3, 0)
    assert sorted(arrived(mail_server)) == ["both@people.example", "domain@people.example", "list@other.example"]
    assert [rows.recipient(recipient_id).attempts for recipient_id in ids] == [1, 1, 1]
    assert [(step, detail) for step, detail in rows.steps(both) if step != "sent"] == [
        ("paused", "sending is paused for the list"),
        ("resumed", releasing.RESUME_DETAIL),
        ("paused", "sending is paused for the domain of the address"),
        ("resumed", releasing.RESUME_DETAIL),
    ]


def test_a_backlog_is_put_aside_and_let_go_in_slices(
    rows: Rows, worker: Services, mail_server: MailServer, pausing: Pausing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasing, "SLICE_SIZE", 7)
    monkeypatch.setattr(returning_messages, "SECONDS_BETWEEN_SLICES", 0.0)
    subject = pausing()
    ids = rows.add_send([f"{number}@people.example" for number in range(250)])
    drain(worker)
    assert set(rows.states(ids)) == {"paused"}
    go_on(worker, subject)
    drain(worker)
    assert set(rows.states(ids)) == {"delivered"}
    assert sorted(arrived(mail_server)) == sorted(f"{number}@people.example" for number in range(250))
    assert pauses_left(worker) == 0


def test_a_large_pause_that_has_ended_keeps_no_small_one_waiting(
    rows: Rows, worker: Services, pausing: Pausing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasing, "SLICE_SIZE", 2)
    monkeypatch.setattr(returning_messages, "SECONDS_BETWEEN_SLICES", 0.0)
    large, small = pausing(domain="large.example"), pausing(domain="small.example")
    ids = rows.add_send([f"{number}@large.example" for number in range(6)])
    (waiting,) = rows.add_send(["ann@small.example"])
    drain(worker)
    for subject in (large, small):
        go_on(worker, subject)
    returning = ReturningMessages(worker.database)
    returning.begin()
    assert [returning.queue_slices(threading.Event()) for _ in range(2)] == [2, 1]
    assert (rows.states([waiting]), rows.states(ids)) == (["queued"], ["queued"] * 2 + ["paused"] * 4)
    assert [returning.queue_slices(threading.Event()) for _ in range(3)] == [2, 2, 0]
    assert (rows.states(ids), pauses_left(worker)) == (["queued"] * 6, 0)


def test_a_worker_that_stops_between_two_slices_leaves_the_rest_to_the_next(
    rows: Rows, worker: Services, pausing: Pausing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler finds the pause that has ended: no wake-up and no memory of a process is needed."""
    monkeypatch.setattr(releasing, "SLICE_SIZE", 2)
    subject = pausing()
    ids = rows.add_send([f"{number}@people.example" for number in range(3)])
    drain(worker)
    with worker.database.read() as session:
        assert not SendQueueSweep().finds_work(session)
    go_on(worker, subject)
    returning = ReturningMessages(worker.database)
    returning.begin()
    assert (returning.queue_slices(), returning.has_left) == (2, True)
    rows.change(ids[:2], state="failed")
    with worker.database.read() as session:
        assert SendQueueSweep().finds_work(session)
    drain(worker)
    assert rows.states(ids) == ["failed", "failed", "delivered"]
    with worker.database.read() as session:
        assert not SendQueueSweep().finds_work(session)


def test_what_a_worker_puts_aside_is_let_go_however_late(rows: Rows, worker: Services, pausing: Pausing) -> None:
    """A pause that has ended puts nothing aside, and stays until what it has put aside is let go."""
    subject = pausing()
    (paused,) = rows.add_send(["ann@people.example"])
    drain(worker)
    go_on(worker, subject)
    (claimed_later,) = rows.add_send(["bob@people.example"])
    with worker.database.write() as transaction:
        claimed = claim(transaction, "worker", size=10, after=0)
        assert put_aside(transaction, "worker", claimed) == claimed
    assert (rows.states([paused, claimed_later]), pauses_left(worker)) == (["paused", "sending"], 1)


@pytest.mark.postgresql("over SQLite there is one writer at a time")
def test_a_message_that_two_pauses_concern_is_put_aside_if_one_ends_during_the_claim(
    rows: Rows, worker: Services, pausing: Pausing
) -> None:
    """The claim has read both pauses, and waits for the end of the first."""
    whole, _domain = pausing(), pausing(domain="people.example")
    both, only_whole = rows.add_send(["ann@people.example", "ann@other.example"])
    left: list[int] = []

    def claim_batch() -> None:
        with worker.database.write() as transaction:
            claimed = claim(transaction, "worker", size=10, after=0)
            left.extend(recipient.id for recipient in put_aside(transaction, "worker", claimed))

    with ExitStack() as resuming:
        transaction = resuming.enter_context(worker.database.write())
        resume(transaction, find_pause(transaction, whole))
        with meanwhile(worker, claim_batch):
            resuming.close()
    assert (left, rows.states([both, only_whole])) == ([only_whole], ["paused", "sending"])
    assert rows.steps(both) == [("paused", "sending is paused for the domain of the address")]


def test_without_a_pause_a_claim_takes_one_more_select(rows: Rows, worker: Services) -> None:
    rows.add_send([f"{number}@people.example" for number in range(20)])
    with worker.database.write() as transaction:
        claimed = claim(transaction, "worker", size=50, after=0)
        with StatementCounter(worker.database.engine) as counted:
            assert put_aside(transaction, "worker", claimed) == claimed
    assert (len(claimed), counted.count) == (20, 1)


def test_putting_aside_takes_as_many_statements_for_many_as_for_one(
    rows: Rows, worker: Services, pausing: Pausing
) -> None:
    pausing()
    counts = []
    for number in (1, 40):
        rows.add_send([f"{number}@people.example" for number in range(number)])
        with worker.database.write() as transaction:
            claimed = claim(transaction, "worker", size=50, after=0)
            with StatementCounter(worker.database.engine) as counted:
                assert put_aside(transaction, "worker", claimed) == []
        counts.append((len(claimed), counted.count))
    assert [number for number, _ in counts] == [1, 40]
    assert counts[0][1] == counts[1][1] <= 4


def test_the_messages_of_a_deleted_list_are_let_go(rows: Rows, worker: Services, pausing: Pausing) -> None:
    list_id = rows.add_list()
    pausing(list_id=list_id)
    (recipient_id,) = rows.add_send(["ann@people.example"], list_id=list_id)
    drain(worker)
    assert rows.states([recipient_id]) == ["paused"]
    with worker.database.write() as transaction:
        delete_list(transaction, get_list(transaction, rows.account_id, list_id))
    drain(worker)
    assert (rows.states([recipient_id]), pauses_left(worker)) == (["delivered"], 0)


def test_an_attempt_that_was_deferred_is_put_aside_when_it_is_due_again(
    rows: Rows, worker: Services, mail_server: MailServer, pausing: Pausing
) -> None:
    mail_server.reply(".", "451 4.3.2 busy")
    (recipient_id,) = rows.add_send(["ann@people.example"])
    drain(worker)
    subject = pausing()
    drain(worker)
    assert rows.states([recipient_id]) == ["queued"], "it is due later"
    rows.make_due([recipient_id])
    drain(worker)
    assert (rows.states([recipient_id]), rows.recipient(recipient_id).attempts) == (["paused"], 1)
    go_on(worker, subject)
    drain(worker)
    assert (rows.states([recipient_id]), rows.recipient(recipient_id).attempts) == (["delivered"], 2)


def test_one_whose_retry_period_has_ended_meanwhile_is_attempted_once(
    rows: Rows, worker: Services, mail_server: MailServer, pausing: Pausing
) -> None:
    subject = pausing()
    old = now() - timedelta(seconds=worker.settings.retry_period + 60)
    good, bad = rows.add_send(["good@people.example", "bad@people.example"], accepted=old)
    drain(worker)
    mail_server.reply(".", "451 4.3.2 busy")
    go_on(worker, subject)
    drain(worker)
    assert sorted(rows.states([good, bad])) == ["bounced", "delivered"]


def test_what_is_being_sent_is_finished(rows: Rows, worker: Services, pausing: Pausing) -> None:
    (recipient_id,) = rows.add_send(["ann@people.example"])
    loop = drain_module.Drain(worker, sender_worker_of(worker))
    loop.send_first_batch()
    pausing()
    loop.run()
    assert rows.states([recipient_id]) == ["delivered"]


def test_other_accounts_are_served_beside_a_backlog_that_is_paused(
    rows: Rows, other_id: int, worker: Services, pausing: Pausing
) -> None:
    """Each claim takes evenly, so that a first claim has the message of the other account."""
    pausing()
    rows.add_send([f"{number}@people.example" for number in range(300)])
    (theirs,) = Rows(worker, other_id).add_send(["ann@people.example"])
    loop = drain_module.Drain(worker, sender_worker_of(worker))
    loop.send_first_batch()
    assert rows.states([theirs])[0] in ("sending", "delivered")
    loop.run()
    assert rows.states([theirs]) == ["delivered"]


def test_steps_are_written_once_for_each_pause(rows: Rows, worker: Services, pausing: Pausing) -> None:
    pausing()
    (recipient_id,) = rows.add_send(["ann@people.example"])
    for _ in range(3):
        drain(worker)
    with worker.database.read() as session:
        steps = session.scalars(select(RecipientStep.step).where(RecipientStep.recipient_id == recipient_id)).all()
    assert steps == ["paused"]


def test_a_test_account_cannot_be_paused(rows: Rows, other_id: int) -> None:
    with rows.services.database.write() as transaction:
        account = transaction.get_one(Account, other_id)
        account.test_of = rows.account_id
        with pytest.raises(ServiceError, match="conflict"):
            subject_of(transaction, account, list_=None, domain=None)


def test_a_person_whose_message_is_paused_is_forgotten(rows: Rows, worker: Services, pausing: Pausing) -> None:
    subject = pausing()
    gone, kept = rows.add_send(["ann@people.example", "bob@people.example"])
    drain(worker)
    assert forget(worker, [rows.account_id], "email", "ann@people.example", wait=0).is_complete
    assert (rows.states([gone, kept]), rows.recipient(gone).reason) == (["failed", "paused"], "forgotten")
    go_on(worker, subject)
    drain(worker)
    assert rows.states([gone, kept]) == ["failed", "delivered"]


def entries_left(services: Services, account_id: int) -> list[int]:
    with services.database.read() as session:
        return list(session.scalars(select(QueueEntry.recipient_id).where(QueueEntry.account_id == account_id)))


def deferred(rows: Rows, worker: Services, mail_server: MailServer, recipient_id: int) -> None:
    """The relay was busy."""
    mail_server.reply(".", "451 4.3.2 busy")
    drain(worker)
    rows.make_due([recipient_id])


def uncertain(rows: Rows, worker: Services, mail_server: MailServer, recipient_id: int) -> None:
    """The connection was lost after the end of the mail."""
    mail_server.reply(".", DROP)
    drain(worker)
    assert rows.states([recipient_id]) == ["uncertain"]
    rows.make_due([recipient_id])


def retried(rows: Rows, worker: Services, mail_server: MailServer, recipient_id: int) -> None:
    """The retry period of the message ended with a soft bounce, and somebody sent the message again."""
    rows.change([recipient_id], creation_time=now() - LONG_AGO)
    mail_server.reply(".", "451 4.3.2 busy")
    drain(worker)
    assert rows.states([recipient_id]) == ["bounced"]
    with worker.database.write() as transaction:
        requeue(transaction, rows.recipient(recipient_id).uuid)


@each("way", [deferred, uncertain, retried], ids=lambda way: way.__name__)
def test_a_report_of_a_failure_ends_one_that_was_attempted_and_is_paused(
    rows: Rows, worker: Services, mail_server: MailServer, pausing: Pausing, way: Callable[..., None]
) -> None:
    rows.add_webhook()
    (ann,) = rows.add_send(["ann@people.example"])
    way(rows, worker, mail_server, ann)
    before = len(events(rows))
    subject = pausing()
    drain(worker)
    assert (rows.states([ann]), rows.recipient(ann).attempts) == (["paused"], 1)
    report = delivery_failure(return_path(worker.settings, ann, FROM), "ann@people.example")
    effects = [receive_email(worker, report, (), patience=0).effect for _ in range(2)]
    assert effects == [Effect.RECORDED, Effect.KNOWN]
    assert (rows.states([ann]), entries_left(worker, rows.account_id)) == (["bounced"], [])
    go_on(worker, subject)
    drain(worker)
    assert (rows.states([ann]), arrived(mail_server), pauses_left(worker)) == (["bounced"], [], 0)
    assert (rows.recipient(ann).attempts, counters(rows, ann)) == (1, (0, 1, 0))
    assert [event["event"] for event in events(rows)[before:]] == ["bounced"]
    assert [step for step, _ in rows.steps(ann)][-2:] == ["paused", "bounced"]


def test_a_report_about_one_that_was_paused_before_any_attempt_changes_nothing(
    rows: Rows, worker: Services, mail_server: MailServer, pausing: Pausing
) -> None:
    subject = pausing()
    (ann,) = rows.add_send(["ann@people.example"])
    (text,) = rows.add_send(["61400000001"], type="sms")
    drain(worker)
    report = delivery_failure(return_path(worker.settings, ann, FROM), "ann@people.example")
    assert receive_email(worker, report, (), patience=0).effect is Effect.KNOWN
    assert take_receipt(worker, Receipt(text, "failed"), patience=0) is Effect.EARLY
    assert rows.states([ann, text]) == ["paused", "paused"]
    go_on(worker, subject)
    drain(worker)
    assert (rows.states([ann, text]), arrived(mail_server)) == (["delivered", "sent"], ["ann@people.example"])


def test_the_receipt_of_a_failure_ends_a_text_that_was_attempted_and_is_paused(
    rows: Rows, worker: Services, pausing: Pausing, tmp_path: Path
) -> None:
    """The gateway had got the text, although its answer was lost."""
    rows.add_webhook()
    (text,) = rows.add_send(["61400000001"], type="sms")
    rows.change([text], attempts=1)
    subject = pausing()
    drain(worker)
    assert (rows.states([text]), rows.recipient(text).attempts) == (["paused"], 1)
    receipt = Receipt(text, "failed", "stat:UNDELIV err:001")
    effects = [take_receipt(worker, receipt, patience=0) for _ in range(2)]
    assert effects == [Effect.RECORDED, Effect.KNOWN]
    assert (rows.states([text]), entries_left(worker, rows.account_id)) == (["bounced"], [])
    go_on(worker, subject)
    drain(worker)
    assert (rows.states([text]), texts(tmp_path / "sms"), pauses_left(worker)) == (["bounced"], [], 0)
    assert counters(rows, text) == (0, 1, 0)
    assert [event["event"] for event in events(rows)] == ["bounced"]
    assert rows.steps(text) == [("paused", "sending is paused for the account"), ("bounced", receipt.detail)]


def test_a_repeated_receipt_does_not_end_a_text_that_is_sent_again(
    rows: Rows, worker: Services, pausing: Pausing
) -> None:
    """Gateways repeat the receipt of the first attempt, while the second one is paused."""
    (text,) = rows.add_send(["61400000001"], type="sms")
    drain(worker)
    receipt = Receipt(text, "failed", "stat:EXPIRED")
    assert take_receipt(worker, receipt, patience=0) is Effect.RECORDED
    subject = pausing()
    with worker.database.write() as transaction:
        requeue(transaction, rows.recipient(text).uuid)
    drain(worker)
    assert rows.states([text]) == ["paused"]
    assert take_receipt(worker, receipt, patience=0) is Effect.KNOWN
    assert rows.states([text]) == ["paused"]
    go_on(worker, subject)
    drain(worker)
    steps = [step for step, _ in rows.steps(text)]
    assert steps == ["sent", "bounced", "requeued", "paused", "resumed", "sent"]


def test_an_account_that_is_deleted_leaves_no_message_that_is_paused(
    rows: Rows, other_id: int, worker: Services, mail_server: MailServer, pausing: Pausing
) -> None:
    """Neither by its own pauses, of which none stays, nor by one of the whole installation, which does."""
    everywhere = pausing(None, domain="other.example")
    pausing()
    rows.add_send(["ann@people.example"])
    pausing(list_id=(list_id := rows.add_list()))
    rows.add_send(["bob@people.example"], list_id=list_id)
    theirs = Rows(worker, other_id)
    (kept,), (gone,) = theirs.add_send(["ann@other.example"]), rows.add_send(["ann@other.example"])
    drain(worker)
    assert (len(entries_left(worker, rows.account_id)), rows.states([kept, gone])) == (3, ["paused", "paused"])
    with worker.database.read() as session:
        account = session.get_one(Account, rows.account_id)
    delete_account(worker.database, account)
    assert (entries_left(worker, rows.account_id), pauses_left(worker)) == ([], 1)
    go_on(worker, everywhere)
    drain(worker)
    assert (theirs.states([kept]), arrived(mail_server)) == (["delivered"], ["ann@other.example"])
    assert pauses_left(worker) == 0
