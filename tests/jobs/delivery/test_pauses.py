"""A pause keeps messages of an account, to a list or to a domain back, and lets them go afterwards, each once and in
its order (docs/delivery.md#pauses)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from app.clock import now
from app.contacts.delete import delete_list
from app.db.models import Account, RecipientStep, SendPause
from app.errors import ServiceError
from app.lists.find import get_list
from app.maintenance.sweeps import SendQueueSweep
from app.privacy.forget import forget
from app.sends.delivery import drain as drain_module
from app.sends.delivery.claim import claim
from app.sends.delivery.drain import drain
from app.sends.delivery.paused import put_aside
from app.sends.delivery.sender_worker import sender_worker_of
from app.sends.pauses import release as releasing
from app.sends.pauses.pause import find_pause, pause, resume
from app.sends.pauses.release import EndedPauses
from app.sends.pauses.subject import Subject, subject_of
from app.services import Services
from tests.support.rows import Rows
from tests.support.statements import StatementCounter
from tests.unit.transports.mailserver import MailServer

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
    one = rows.recipient(mails[0])
    assert (one.attempts, one.worker, one.lease_time) == (0, None, None)
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
    """Of the account alone, in any spelling, and of contacts by their address."""
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
    (own,), (captured,) = rows.add_send(["ann@people.example"]), others.add_send(["ann@people.example"])
    (elsewhere,) = rows.add_send(["ann@other.example"])
    drain(worker)
    assert rows.states([own, captured, elsewhere]) == ["paused", "delivered", "delivered"]
    go_on(worker, subject)
    drain(worker)
    assert rows.states([own]) == ["delivered"]


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
    ended = EndedPauses(worker.database)
    ended.begin()
    assert (ended.release(), pauses_left(worker)) == (3, 0)
    with worker.database.write() as transaction:
        claimed = [one.id for one in claim(transaction, "worker", size=10, after=0)]
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


def test_a_backlog_is_put_aside_and_let_go_in_slices(
    rows: Rows, worker: Services, mail_server: MailServer, pausing: Pausing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasing, "SLICE", 7)
    monkeypatch.setattr(releasing, "BETWEEN", 0.0)
    subject = pausing()
    ids = rows.add_send([f"{number}@people.example" for number in range(250)])
    drain(worker)
    assert set(rows.states(ids)) == {"paused"}
    go_on(worker, subject)
    drain(worker)
    assert set(rows.states(ids)) == {"delivered"}
    assert sorted(arrived(mail_server)) == sorted(f"{number}@people.example" for number in range(250))
    assert pauses_left(worker) == 0


def test_a_worker_that_stops_between_two_slices_leaves_the_rest_to_the_next(
    rows: Rows, worker: Services, pausing: Pausing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler finds the pause that has ended: no wake-up and no memory of a process is needed."""
    monkeypatch.setattr(releasing, "SLICE", 2)
    subject = pausing()
    ids = rows.add_send([f"{number}@people.example" for number in range(3)])
    drain(worker)
    with worker.database.read() as session:
        assert not SendQueueSweep().finds_work(session)
    go_on(worker, subject)
    ended = EndedPauses(worker.database)
    ended.begin()
    assert (ended.release(), ended.has_left) == (2, True)
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
