"""What is proven to have arrived is not sent again, whatever the answer to its attempt was: a receipt of a text, or a
report of a mail server or relay, decides as soon as no worker has the message (docs/retries.md#late-evidence)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import func, select

from app.clock import now
from app.db.models import HourlyCount, RecipientStep
from app.errors import ServiceError
from app.inbound.effect import Effect
from app.inbound.email.receive import receive_email
from app.inbound.email.report import Report, ReportKind
from app.inbound.hooks.base import RelayEvent
from app.inbound.hooks.take import take_relay_events
from app.inbound.kannel import take_kannel_receipt
from app.inbound.receipts import Receipt, take_receipt
from app.inbound.smpp import incoming_handler
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import sender_worker_of
from app.sends.outcomes.requeue import requeue
from app.services import Services
from app.tracking.tokens import return_path
from tests.jobs.delivery.conftest import Changed, events, texts
from tests.jobs.delivery.test_outcomes import LONG_AGO, counters
from tests.jobs.delivery.test_pauses import Pausing, entries_left, go_on, pausing  # noqa: F401 - a fixture
from tests.support.kannel import Gateway
from tests.support.mail_reports import complaint, delivery_failure
from tests.support.rows import FROM, Rows
from tests.support.smpp import OK
from tests.support.smsc import Smsc
from tests.support.tenants import new_mobile
from tests.unit.transports.mailserver import DROP, MailServer

each = pytest.mark.parametrize
DELIVERED = "stat:DELIVRD err:000"
SAID = "no answer, but it has arrived: {}"


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    """A Kannel."""
    with Gateway() as server:
        yield server


@pytest.fixture
def sender(make_worker: Changed, gateway: Gateway) -> Services:
    """A worker that sends its texts to Kannel."""
    return make_worker(sms_transport_url=gateway.url(), public_url="https://tms.example.com")


@pytest.fixture
def text(rows: Rows, sender: Services, gateway: Gateway) -> int:
    """A text that Kannel has taken, whose answer was lost."""
    rows.add_webhook()
    contact = rows.add_contact(list_id := rows.add_list(), None, new_mobile())
    (text,) = rows.add_send([{"contact_id": contact}], type="sms", list_id=list_id)
    gateway.loses_answers = True
    drain(sender)
    gateway.loses_answers = False
    assert (rows.states([text]), rows.recipient(text).attempts, len(gateway.asked)) == (["queued"], 1, 1)
    return text


def call_back(services: Services, gateway: Gateway, kind: str, answer: str) -> None:
    """Kannel calls the URL that came with the first text."""
    url = urlsplit(gateway.asked[0][1]["dlr-url"])
    take_kannel_receipt(services, url.path.rpartition("/")[2], kind, answer)


def by_hour(rows: Rows, recipient_id: int) -> list[tuple[int, int, int]]:
    """The counts of delivered, bounced and failed recipients of its group, by hour, without hours of zeros."""
    columns = (func.sum(getattr(HourlyCount, name)) for name in ("delivered", "bounced", "failed_contacts"))
    criteria = HourlyCount.group_id == rows.recipient(recipient_id).group_id
    with rows.services.database.read() as session:
        hours = session.execute(select(*columns).where(criteria).group_by(HourlyCount.hour).order_by(HourlyCount.hour))
        return [(row[0], row[1], row[2]) for row in hours if any(row)]


def check_delivered(rows: Rows, text: int, *steps: str) -> None:
    """Checks that the text ended once, as one that was accepted and acknowledged."""
    recipient = rows.recipient(text)
    assert (recipient.state, recipient.reason, recipient.open_type) == ("delivered", None, "sms")
    assert recipient.sent_time is not None
    assert recipient.mobile is not None
    assert entries_left(rows.services, rows.account_id) == []
    assert (counters(rows, text), by_hour(rows, text)) == ((1, 0, 0), [(1, 0, 0)])
    told = [event for event in events(rows) if event["event"] in ("sent", "acknowledged")]
    assert [(event["event"], event["mobile"]) for event in told] == [
        ("sent", recipient.mobile),
        ("acknowledged", recipient.mobile),
    ]
    assert [step for step, _ in rows.steps(text)] == [*steps, "sent", "acknowledged"]
    assert rows.steps(text)[-2][1] == SAID.format("acknowledged")


def test_a_receipt_ends_a_text_whose_answer_was_lost(rows: Rows, sender: Services, gateway: Gateway, text: int) -> None:
    for _ in range(2):
        call_back(sender, gateway, "1", DELIVERED)
    check_delivered(rows, text, "deferred")
    drain(sender)
    call_back(sender, gateway, "2", "stat:UNDELIV")
    assert len(gateway.asked) == 1, "it was not sent again"
    check_delivered(rows, text, "deferred")


def test_a_receipt_ends_a_text_that_was_put_aside(
    rows: Rows,
    sender: Services,
    gateway: Gateway,
    text: int,
    pausing: Pausing,  # noqa: F811
) -> None:
    rows.make_due([text])
    subject = pausing()
    drain(sender)
    assert rows.states([text]) == ["paused"]
    call_back(sender, gateway, "1", DELIVERED)
    check_delivered(rows, text, "deferred", "paused")
    go_on(sender, subject)
    drain(sender)
    assert (rows.states([text]), len(gateway.asked)) == (["delivered"], 1)


def test_the_receipt_of_a_failure_ends_a_text_that_waits(
    rows: Rows, sender: Services, gateway: Gateway, text: int
) -> None:
    for _ in range(2):
        call_back(sender, gateway, "2", "stat:UNDELIV err:001")
    assert (rows.states([text]), counters(rows, text)) == (["bounced"], (0, 1, 0))
    rows.make_due([text])
    drain(sender)
    assert len(gateway.asked) == 1
    assert [event["event"] for event in events(rows)] == ["bounced", "updated"]


def test_a_receipt_corrects_a_text_that_was_given_up(rows: Rows, sender: Services, gateway: Gateway, text: int) -> None:
    """State, counters and the hour in which the failure was counted."""
    rows.change([text], creation_time=now() - LONG_AGO)
    rows.make_due([text])
    gateway.status = 503
    drain(sender)
    assert (rows.states([text]), rows.recipient(text).reason, counters(rows, text)) == (
        ["failed"],
        "expired",
        (0, 0, 1),
    )
    for _ in range(2):
        call_back(sender, gateway, "1", DELIVERED)
    check_delivered(rows, text, "deferred", "failed")
    assert [event["event"] for event in events(rows)] == ["failed", "sent", "acknowledged"]


def test_a_failure_of_an_earlier_hour_is_taken_back_from_that_hour(
    rows: Rows, sender: Services, gateway: Gateway, text: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.change([text], creation_time=now() - LONG_AGO)
    rows.make_due([text])
    gateway.status = 503
    drain(sender)
    assert by_hour(rows, text) == [(0, 0, 1)]
    later = now() + timedelta(hours=2)
    monkeypatch.setattr("app.sends.outcomes.arrival.now", lambda: later)
    call_back(sender, gateway, "1", DELIVERED)
    assert by_hour(rows, text) == [(1, 0, 0)]


def test_under_a_lease_a_receipt_waits(
    rows: Rows, sender: Services, gateway: Gateway, text: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.inbound.kannel.PATIENCE", 0)
    rows.change([text], state="sending", worker="slow", lease_time=now() + timedelta(minutes=1))
    for kind in ("1", "2"):
        with pytest.raises(ServiceError) as raised:
            call_back(sender, gateway, kind, DELIVERED)
        assert raised.value.code == "service_unavailable"
    assert (rows.states([text]), counters(rows, text), events(rows)) == (["sending"], (0, 0, 0), [])


def test_before_any_attempt_there_is_nothing_to_report(rows: Rows, worker: Services, tmp_path: Path) -> None:
    """One that was never handed over has no receipt; nor has one that failed without an attempt."""
    queued, failed = (rows.add_send([new_mobile()], type="sms")[0] for _ in range(2))
    rows.change([failed], state="failed", reason="cancelled")
    assert take_receipt(worker, Receipt(queued, "delivered"), patience=0) is Effect.EARLY
    assert take_receipt(worker, Receipt(failed, "delivered"), patience=0) is Effect.KNOWN
    assert rows.states([queued, failed]) == ["queued", "failed"]
    drain(worker)
    assert len(texts(tmp_path / "sms")) == 1


@each("status", ["delivered", "failed"])
def test_the_attempt_of_one_that_was_held_may_be_lost_with_the_old_database(
    rows: Rows, worker: Services, tmp_path: Path, status: Any
) -> None:
    """The text was sent between backup and restore, and is released for another day."""
    rows.add_webhook()
    (text,) = rows.add_send([new_mobile()], type="sms", due_in=86400)
    rows.add(RecipientStep, recipient_id=text, time=now(), step="held", detail="restored")
    assert take_receipt(worker, Receipt(text, status), patience=0) is Effect.RECORDED
    assert rows.states([text]) == ["delivered" if status == "delivered" else "bounced"]
    assert entries_left(worker, rows.account_id) == []
    drain(worker)
    assert texts(tmp_path / "sms") == []


def test_a_receipt_over_smpp_ends_a_text_that_is_sent_again(rows: Rows, make_worker: Changed) -> None:
    """The text had bounced and somebody retried it. Then the first attempt turns out to have arrived."""
    rows.add_webhook()
    with Smsc() as smsc:
        sender = make_worker(sms_transport_url=smsc.url())
        sender_worker_of(sender, incoming_handler(sender))
        (text,) = rows.add_send([new_mobile()], type="sms")
        drain(sender)
        assert smsc.receipt("m1", "EXPIRED") == OK
        with sender.database.write() as transaction:
            requeue(transaction, rows.recipient(text).uuid)
        assert [smsc.receipt("m1", "EXPIRED"), smsc.receipt("m1"), smsc.receipt("m1")] == [OK, OK, OK]
        drain(sender)
        assert len(smsc.submissions) == 1
    assert (rows.states([text]), entries_left(rows.services, rows.account_id)) == (["delivered"], [])
    assert (counters(rows, text), by_hour(rows, text)) == ((1, 0, 0), [(1, 0, 0)])
    assert [event["event"] for event in events(rows)] == ["sent", "bounced", "sent", "acknowledged"]


def test_a_result_that_a_worker_writes_late_changes_nothing_any_more(
    rows: Rows, sender: Services, gateway: Gateway, text: int
) -> None:
    """The lease of the worker had run out, and the receipt came before the result."""
    call_back(sender, gateway, "1", DELIVERED)
    rows.make_due([text])
    drain(sender)
    check_delivered(rows, text, "deferred")


# -------------------------------------------------------------------------------------------------- emails


@pytest.fixture
def ann(rows: Rows, worker: Services, mail_server: MailServer) -> int:
    """An email whose relay took it without an answer, and that waits in the queue once more."""
    rows.add_webhook()
    contact = rows.add_contact(list_id := rows.add_list(), "ann@people.example")
    (ann,) = rows.add_send([{"contact_id": contact}], list_id=list_id)
    mail_server.reply(".", DROP)
    drain(worker)
    assert rows.states([ann]) == ["uncertain"]
    return ann


def waiting(rows: Rows, _worker: Services, ann: int, _pausing: Pausing) -> None:
    """No sign of it had come."""
    rows.change([ann], state="queued", due_time=now() + timedelta(hours=1))


def uncertain(*_: Any) -> None:
    """The outcome of the message is not resolved yet."""


def paused(rows: Rows, worker: Services, ann: int, pausing: Pausing) -> None:  # noqa: F811
    """No sign had come, and then its account was paused."""
    rows.change([ann], state="queued", due_time=now())
    pausing()
    drain(worker)
    assert rows.states([ann]) == ["paused"]


def failed(rows: Rows, worker: Services, ann: int, _pausing: Pausing) -> None:
    """An operator ended it."""
    rows.change([ann], state="held", held_state="uncertain")
    rows.change([ann], state="failed", reason="dropped", attempts=1)


def arrival(worker: Services, ann: int) -> bool:
    notice = delivery_failure(
        return_path(worker.settings, ann, FROM), "ann@people.example", status="2.0.0", action="delivered",
        diagnostic="smtp; 250 2.0.0 ok",
    )  # fmt: skip
    return receive_email(worker, notice, (), patience=0).effect is Effect.RECORDED


def relay_event(worker: Services, ann: int) -> bool:
    report = Report(ReportKind.ARRIVED, "2.0.0", "250 ok", frozenset({"ann@people.example"}))
    event = RelayEvent(report, fingerprint="one", uuid=None, return_path=return_path(worker.settings, ann, FROM))
    return take_relay_events(worker, [event])


def spam_report(worker: Services, ann: int) -> bool:
    notice = complaint(return_path(worker.settings, ann, FROM), "ann@people.example")
    return receive_email(worker, notice, (), patience=0).effect is Effect.RECORDED


@each("way", [waiting, uncertain, paused, failed], ids=lambda way: way.__name__)
@each("report", [arrival, relay_event, spam_report], ids=lambda report: report.__name__)
def test_a_report_ends_an_email_whose_answer_was_lost(
    *, rows: Rows, worker: Services, mail_server: MailServer, ann: int, pausing: Pausing,  # noqa: F811
    way: Callable[..., None], report: Callable[[Services, int], bool],
) -> None:  # fmt: skip
    way(rows, worker, ann, pausing)
    had_failed = rows.states([ann]) == ["failed"]
    assert report(worker, ann)
    report(worker, ann)
    rows.make_due([ann])
    drain(worker)
    recipient = rows.recipient(ann)
    assert (recipient.state, recipient.email, recipient.reason) == ("delivered", "ann@people.example", None)
    assert (mail_server.mails, entries_left(worker, rows.account_id)) == ([], [])
    assert counters(rows, ann) == (1, 0, -1 if had_failed else 0), "the test did not count its failure"
    assert [event["event"] for event in events(rows) if event["object"] == "recipient"] == ["sent"]
    steps = [step for step, _ in rows.steps(ann)]
    assert steps.count("sent") == 1


def test_a_late_report_of_a_mail_that_bounced_does_not_end_its_retry(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    (ann,) = rows.add_send(["ann@people.example"])
    drain(worker)
    bounce = delivery_failure(return_path(worker.settings, ann, FROM), "ann@people.example", status="4.2.2")
    assert receive_email(worker, bounce, (), patience=0).effect is Effect.RECORDED
    with worker.database.write() as transaction:
        requeue(transaction, rows.recipient(ann).uuid)
    assert relay_event(worker, ann)
    assert rows.states([ann]) == ["queued"]
    drain(worker)
    assert (rows.states([ann]), len(mail_server.mails)) == (["delivered"], 2)


def test_the_bounce_of_one_that_was_sent_before_a_restore_ends_it(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """Although the database that counted its attempt is lost, and it was released."""
    (ann,) = rows.add_send(["ann@people.example"], due_in=86400)
    rows.add(RecipientStep, recipient_id=ann, time=now(), step="held", detail="restored")
    bounce = delivery_failure(return_path(worker.settings, ann, FROM), "ann@people.example")
    assert receive_email(worker, bounce, (), patience=0).effect is Effect.RECORDED
    assert (rows.states([ann]), entries_left(worker, rows.account_id)) == (["bounced"], [])
