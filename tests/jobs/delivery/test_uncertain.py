"""A mail that may have arrived is not sent again blindly (docs/retries.md#uncertain-mail)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select, update

from app.clock import now
from app.db.models import Recipient, RecipientStep, Send
from app.inbound.effect import Effect
from app.inbound.email.receive import receive_email
from app.infrastructure.metrics import OUTCOMES
from app.maintenance.sweeps import SendQueueSweep
from app.sends.delivery.drain import drain
from app.sends.outcomes.recovery import UNANSWERED
from app.sends.outcomes.requeue import requeue
from app.services import Services
from app.tracking.tokens import return_path
from app.transports.email.smtp import NO_FINAL_REPLY
from tests.jobs.delivery.conftest import Changed, events, parsed
from tests.jobs.delivery.test_outcomes import blocked, counters, soft_bounces
from tests.support.mail_reports import delivery_failure
from tests.support.rows import FROM, Rows
from tests.unit.transports.mailserver import DROP, MailServer


@pytest.fixture
def ann(rows: Rows, worker: Services, mail_server: MailServer) -> int:
    """A recipient whose mail server closed the connection after the end of the message."""
    rows.add_webhook()
    contact = rows.add_contact(list_id := rows.add_list(), "ann@example.com")
    mail_server.reply(".", DROP)
    (ann,) = rows.add_send([{"contact_id": contact}], list_id=list_id)
    drain(worker)
    return ann


def ended_over(rows: Rows, recipient_id: int) -> str | None:
    """The transport in the step by which the recipient bounced."""
    steps = select(RecipientStep.transport).where(RecipientStep.recipient_id == recipient_id)
    with rows.services.database.read() as session:
        return session.scalars(steps.where(RecipientStep.step == "bounced")).one()


def ripen(rows: Rows, ann: int) -> None:
    rows.change([ann], due_time=now())


def test_an_uncertain_mail_is_neither_delivered_nor_retried(
    rows: Rows, make_worker: Changed, mail_server: MailServer, ann: int
) -> None:
    drain(make_worker(retry_delay=0.0))
    recipient = rows.recipient(ann)
    assert (recipient.state, recipient.attempts, recipient.email) == ("uncertain", 1, "ann@example.com")
    assert recipient.due_time >= recipient.creation_time + timedelta(minutes=15)
    assert rows.steps(ann) == [("uncertain", NO_FINAL_REPLY)]
    assert (counters(rows, ann), events(rows), mail_server.mails) == ((0, 0, 0), [], [])


def test_without_a_sign_of_arrival_it_is_sent_again_with_its_message_id(
    rows: Rows, worker: Services, mail_server: MailServer, ann: int
) -> None:
    ripen(rows, ann)
    with worker.database.read() as session:
        assert SendQueueSweep().finds_work(session)
    drain(worker)
    assert (rows.states([ann]), counters(rows, ann)) == (["delivered"], (1, 0, 0))
    assert [step for step, _ in rows.steps(ann)] == ["uncertain", "requeued", "sent"]
    (mail,) = mail_server.mails
    assert parsed(mail.content)["Message-ID"] == f"<{rows.recipient(ann).uuid}@acme.example>"


@pytest.mark.parametrize("sign", ["opened", "clicked by machine", "reported arrived"])
def test_with_a_sign_of_arrival_it_counts_as_delivered(
    rows: Rows, worker: Services, mail_server: MailServer, ann: int, sign: str
) -> None:
    rows.add(RecipientStep, recipient_id=ann, time=now(), step=sign)
    ripen(rows, ann)
    before = OUTCOMES.labels("live", "email", "sent").value
    drain(worker)
    recipient = rows.recipient(ann)
    assert (recipient.state, recipient.worker, counters(rows, ann)) == ("delivered", None, (1, 0, 0))
    assert OUTCOMES.labels("live", "email", "sent").value - before == 1
    assert recipient.sent_time is not None
    assert rows.steps(ann)[-1] == ("sent", f"no answer, but it has arrived: {sign}")
    assert [event["event"] for event in events(rows)] == ["sent"]
    assert mail_server.mails == []


def test_a_report_of_its_failure_bounces_it(rows: Rows, worker: Services, mail_server: MailServer, ann: int) -> None:
    report = delivery_failure(return_path(worker.settings, ann, FROM), "ann@example.com")
    assert receive_email(worker, report, (), patience=0).effect is Effect.RECORDED
    ripen(rows, ann)
    drain(worker)
    assert (rows.states([ann]), counters(rows, ann)) == (["bounced"], (0, 1, 0))
    assert [event["event"] for event in events(rows)] == ["bounced", "updated"]
    assert mail_server.mails == []


def test_an_operator_may_send_again_at_once(rows: Rows, worker: Services, mail_server: MailServer, ann: int) -> None:
    with worker.database.write() as transaction:
        requeue(transaction, rows.recipient(ann).uuid)
    drain(worker)
    assert (rows.states([ann]), counters(rows, ann)) == (["delivered"], (1, 0, 0))


def test_without_a_sign_of_arrival_it_bounces_at_the_end_of_the_retry_period(
    rows: Rows, worker: Services, mail_server: MailServer, ann: int
) -> None:
    """It is not sent once more, and it does not count against the address. The timeline keeps its transport."""
    rows.change([ann], creation_time=now() - timedelta(days=2))
    rows.add(RecipientStep, recipient_id=ann, time=now(), step="uncertain", transport="spare")
    ripen(rows, ann)
    drain(worker)
    assert (rows.states([ann]), counters(rows, ann), mail_server.mails) == (["bounced"], (0, 1, 0), [])
    reason = f"{UNANSWERED.reply} (4.4.7)"
    assert rows.steps(ann)[-1] == ("bounced", reason)
    assert ended_over(rows, ann) == "spare"
    (event,) = events(rows)
    assert (event["event"], event["is_temporary_bounce"], event["bounce_string"]) == ("bounced", True, reason)
    assert (blocked(rows), soft_bounces(rows)) == ([], {})


def test_its_retry_period_begins_with_send_at(rows: Rows, worker: Services, mail_server: MailServer, ann: int) -> None:
    rows.change([ann], creation_time=now() - timedelta(days=2))
    with worker.database.write() as transaction:
        send_id = transaction.get_one(Recipient, ann).send_id
        transaction.execute(update(Send).where(Send.id == send_id).values(send_at=now() - timedelta(hours=1)))
    ripen(rows, ann)
    drain(worker)
    assert rows.states([ann]) == ["delivered"]


def test_an_uncertain_mail_is_resolved_even_after_the_retry_period(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    mail_server.reply(".", DROP, DROP)
    late, opened = rows.add_send(["late@example.com", "opened@example.com"], accepted=now() - timedelta(days=2))
    drain(worker)
    assert rows.states([late, opened]) == ["uncertain", "uncertain"]
    rows.add(RecipientStep, recipient_id=opened, time=now(), step="opened")
    rows.change([late, opened], due_time=now())
    drain(worker)
    assert rows.states([late, opened]) == ["bounced", "delivered"]
