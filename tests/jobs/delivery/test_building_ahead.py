"""While a thread awaits the answer to a message, it builds the one that comes next but one: the next is announced."""

from __future__ import annotations

import logging

import pytest

from app.infrastructure import logs
from app.sends.delivery import connections
from app.sends.delivery.dispatcher import Dispatcher
from app.sends.delivery.load import load
from app.sends.delivery.recipient import ClaimedRecipient
from app.sends.delivery.sender_worker import sender_worker_of
from app.sends.outcomes.attempt_result import AttemptResult
from app.services import Services
from app.transports.base import Outcome
from tests.jobs.delivery.conftest import Changed
from tests.jobs.delivery.test_fairness import addresses, take
from tests.support.rows import Rows
from tests.support.servers import PATIENCE, wait_until
from tests.unit.transports.mailserver import MailServer


@pytest.fixture(autouse=True)
def _pipelining(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipelines from the second message on, however slow the machine is."""
    monkeypatch.setattr(connections, "STEADY_REPLY", PATIENCE)


def prepared(rows: Rows, worker: Services, count: int) -> list[ClaimedRecipient]:
    rows.add_send(addresses(count))
    with worker.database.read() as session:
        return load(session, take(worker, count, worker=sender_worker_of(worker).name), worker.settings)


def outcomes(results: list[AttemptResult]) -> list[Outcome | None]:
    return [result.result and result.result.outcome for result in sorted(results)]


def test_a_message_is_built_while_an_answer_is_awaited(
    rows: Rows, make_worker: Changed, mail_server: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The fourth cannot be built, which is known while the second has no answer yet."""
    worker, results = make_worker(send_connections=1), list[AttemptResult]()
    recipients = prepared(rows, worker, 5)
    broken = recipients[3]
    broken.values = None  # type: ignore[assignment]
    sending = Dispatcher(sender_worker_of(worker))

    def is_done() -> bool:
        results.extend(sending.collect(0.05))
        return not sending

    with caplog.at_level(logging.ERROR), mail_server.hold_answers(after=1):
        sending.enqueue(recipients)
        wait_until(lambda: "cannot send" in caplog.messages, "the fourth was built")
        assert len(mail_server.mails) <= 2
    wait_until(is_done, "all have a result")
    assert outcomes(results) == [*[Outcome.ACCEPTED] * 3, Outcome.DEFERRED, Outcome.ACCEPTED]
    assert caplog.messages.count("cannot send") == 1  # it was built once


def test_another_connection_sends_what_was_built_behind_a_message_without_an_answer(
    rows: Rows, make_worker: Changed, mail_server: MailServer
) -> None:
    worker, results = make_worker(send_connections=2), list[AttemptResult]()
    recipients = prepared(rows, worker, 6)
    sending = Dispatcher(sender_worker_of(worker))

    def in_flight() -> int:
        results.extend(sending.collect(0.05))
        return len(mail_server.unanswered)

    with mail_server.hold_answers(after=1):
        sending.enqueue(recipients)
        wait_until(lambda: in_flight() == 2 and results, "the other connection has sent one as well")
        assert len(results) == 1
    wait_until(lambda: in_flight() == 0 and not sending, "all are sent")
    assert outcomes(results) == [Outcome.ACCEPTED] * 6
    assert sorted(mail.recipients[0] for mail in mail_server.mails) == sorted(addresses(6))


def test_what_is_logged_of_the_message_that_is_sent_keeps_its_request_id(rows: Rows, worker: Services) -> None:
    """Building another one ahead does not change it."""
    (recipient,) = prepared(rows, worker, 1)
    sent = logs.request_id.set("of the one that is sent")
    try:
        sender_worker_of(worker).builder.build(recipient)
        assert logs.request_id.get() == "of the one that is sent"
    finally:
        logs.request_id.reset(sent)
