"""The drain as a job: its end, its wake-ups, its log lines, and the connections it keeps."""

from __future__ import annotations

import itertools
import logging
import threading

import pytest
from rq import Queue
from rq.serializers import JSONSerializer
from sqlalchemy import select

from app.clock import now
from app.db.models import Send
from app.infrastructure.redis_client import SENDS
from app.sends.delivery import drain as drain_module
from app.sends.delivery.drain import drain
from app.sends.outcomes import recovery, write
from app.sends.outcomes.attempt_result import Journal, journal_folder, scan_journals
from app.services import Services
from tests.jobs.delivery.conftest import Changed, StartDrain, texts
from tests.jobs.delivery.test_fairness import addresses
from tests.support.clocks import ClockAhead
from tests.support.rows import Rows
from tests.support.servers import PATIENCE, wait_until
from tests.support.threads import without_memory
from tests.unit.transports.mailserver import MailServer


def emptied_queue(worker: Services) -> Queue:
    """The queue of wake-ups, empty."""
    queue = Queue(SENDS, connection=worker.redis, serializer=JSONSerializer)
    worker.redis.delete(queue.key)
    return queue


@pytest.fixture
def sends_queue(worker: Services) -> Queue:
    return emptied_queue(worker)


def test_a_drain_without_due_rows_queues_no_wake_up(worker: Services, sends_queue: Queue) -> None:
    """A superfluous wake-up is cheap."""
    drain(worker)
    assert sends_queue.count == 0


def test_a_drain_that_leaves_no_due_rows_queues_no_wake_up(rows: Rows, worker: Services, sends_queue: Queue) -> None:
    """No wake-up is queued even when a retry is due later."""
    rows.add_send(addresses(3))
    rows.add_send(addresses(3), due_in=60)
    drain(worker)
    assert sends_queue.count == 0


def test_a_drain_at_the_end_of_its_time_slice_wakes_the_next(
    rows: Rows,
    make_worker: Changed,
    mail_server: MailServer,
    start_drain: StartDrain,
    drain_clock: ClockAhead,
) -> None:
    """The drain requeues the rows that it has not begun."""
    worker = make_worker(send_connections=1)
    sends_queue, ids = emptied_queue(worker), rows.add_send(addresses(10))
    with mail_server.hold_answers():
        draining = start_drain(worker)
        wait_until(lambda: mail_server.unanswered, "the first is in flight")
        drain_clock.ahead = drain_module.TIME_SLICE
        wait_until(lambda: "queued" in rows.states(ids), "the others are requeued")
    draining.join(PATIENCE)
    assert set(rows.states(ids)) == {"delivered", "queued"}
    assert sends_queue.count == 1


def test_a_slow_message_at_the_end_of_the_time_slice_does_not_delay_others(
    rows: Rows, make_worker: Changed, mail_server: MailServer, start_drain: StartDrain, drain_clock: ClockAhead
) -> None:
    """The drain continues while the slow message is in flight."""
    (slow,) = rows.add_send(["slow@example.com"])
    with mail_server.hold_answers():
        draining = start_drain(make_worker(send_connections=2))
        wait_until(lambda: mail_server.unanswered, "the slow message is in flight")
        drain_clock.ahead = drain_module.TIME_SLICE + drain_module.MAX_WAIT
        (text,) = rows.add_send(["61411111111"], type="sms")
        wait_until(lambda: rows.states([text]) == ["sent"], "the text is sent")
        assert rows.states([slow]) == ["sending"]
        assert draining.is_alive()
    draining.join(PATIENCE)
    assert rows.states([slow]) == ["delivered"]


def test_what_is_done_between_drains_is_also_done_while_slow_messages_keep_one_from_ending(
    rows: Rows, make_worker: Changed, mail_server: MailServer, start_drain: StartDrain, drain_clock: ClockAhead
) -> None:
    """Messages of dead workers and uncertain ones are sent, those in flight here are not taken for such, and results
    that are in the database leave the journal."""
    worker = make_worker(send_connections=2)
    ids = rows.add_send(addresses(2))
    with mail_server.hold_answers(after=1):
        draining = start_drain(worker)
        wait_until(lambda: sorted(rows.states(ids)) == ["delivered", "sending"], "one is sent, the other is in flight")
        slow = ids[rows.states(ids).index("sending")]
        lost, uncertain = rows.add_send(["61411111111", "61422222222"], type="sms", due_in=60)
        rows.change([lost], state="sending", worker="elsewhere", lease_time=now(), attempts=1)
        rows.change([uncertain], state="uncertain", due_time=now(), attempts=1)
        rows.change([slow], lease_time=now())
        drain_clock.ahead = drain_module.TIME_SLICE + drain_module.MAX_WAIT
        wait_until(lambda: rows.states([lost, uncertain]) == ["sent", "sent"], "both are sent")
        assert rows.states([slow]) == ["sending"]
        with scan_journals(journal_folder(worker.settings)) as (journal,):
            assert [result.recipient_id for result in journal.results()] == [lost, uncertain]
    draining.join(PATIENCE)
    assert rows.states(ids) == ["delivered", "delivered"]
    assert [rows.recipient(recipient_id).attempts for recipient_id in ids] == [1, 1]


def test_a_recovery_ends_in_time_for_the_messages_that_are_in_flight(
    rows: Rows,
    make_worker: Changed,
    mail_server: MailServer,
    start_drain: StartDrain,
    *,
    drain_clock: ClockAhead,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their leases would run out meanwhile. The next recovery goes on, with the journal of the dead worker."""
    monkeypatch.setattr(drain_module, "RECOVERY_SECONDS", 0.0)
    monkeypatch.setattr(recovery, "BATCH_SIZE", 1)
    worker = make_worker(send_connections=2)
    ids = rows.add_send(addresses(2))
    with mail_server.hold_answers(after=1):
        draining = start_drain(worker)
        wait_until(lambda: sorted(rows.states(ids)) == ["delivered", "sending"], "one is sent, the other is in flight")
        lost = rows.add_send(["61411111111", "61422222222"], type="sms", due_in=60)
        uncertain = rows.add_send(["61433333333", "61444444444"], type="sms", due_in=60)
        Journal(folder := journal_folder(worker.settings), "dead").close()
        rows.change(lost, state="sending", worker="dead", lease_time=now(), attempts=1)
        rows.change(uncertain, state="uncertain", due_time=now(), attempts=1)
        drain_clock.ahead = drain_module.TIME_SLICE + drain_module.MAX_WAIT
        wait_until(lambda: rows.states([lost[0], uncertain[0]]) == ["sent", "sent"], "the first ones are sent")
        assert [rows.states(lost)[1], rows.states(uncertain)[1]] == ["sending", "uncertain"]
        assert (folder / "dead.journal").exists()
        drain_clock.ahead *= 2
        wait_until(lambda: rows.states([*lost, *uncertain]) == ["sent"] * 4, "the others are sent")
    draining.join(PATIENCE)


def test_rows_that_become_due_during_a_drain_are_claimed(
    rows: Rows, make_worker: Changed, mail_server: MailServer, start_drain: StartDrain
) -> None:
    """The wake-up of the new rows may be queued behind the running drain."""
    (first,) = rows.add_send(["first@example.com"])
    with mail_server.hold_answers():
        draining = start_drain(make_worker(send_connections=2))
        wait_until(lambda: mail_server.unanswered == ["first@example.com"], "the first is in flight")
        (second,) = rows.add_send(["second@example.com"])
        wait_until(lambda: "second@example.com" in mail_server.unanswered, "the second is in flight, too")
        assert rows.states([first, second]) == ["sending", "sending"]
    draining.join(PATIENCE)
    assert rows.states([first, second]) == ["delivered", "delivered"]


def test_connections_stay_open_between_drains(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    for _ in range(3):
        rows.add_send(["ann@example.com"])
        drain(worker)
    assert (len(mail_server.mails), mail_server.sessions) == (3, 1)


def test_a_drain_uses_several_connections(
    rows: Rows, make_worker: Changed, mail_server: MailServer, start_drain: StartDrain
) -> None:
    """A drain uses as many connections as `SEND_CONNECTIONS` allows."""
    rows.add_send(addresses(12))
    with mail_server.hold_answers():
        draining = start_drain(make_worker(send_connections=3))
        wait_until(lambda: len(mail_server.unanswered) == 3, "each connection carries a message")
    draining.join(PATIENCE)
    assert (len(mail_server.mails), mail_server.sessions) == (12, 3)


@pytest.mark.parametrize("refused", [1, 2])
def test_a_thread_for_which_no_memory_is_left_is_started_soon(
    rows: Rows, mail_server: MailServer, start_drain: StartDrain, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    """Nothing that was claimed is left without a thread."""
    start, numbers = threading.Thread.start, itertools.count(1)

    def start_or_refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("send") and next(numbers) == refused:
            without_memory(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_refuse)
    ids = rows.add_send(addresses(3))
    with mail_server.hold_answers():
        draining = start_drain(rows.services)
        wait_until(lambda: len(mail_server.unanswered) == 3, "all are in flight")
    draining.join(PATIENCE)
    assert rows.states(ids) == ["delivered"] * 3


def test_log_lines_carry_the_request_id_of_the_send(
    rows: Rows, worker: Services, mail_server: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Each line carries the id of its own send, even in a batch with other sends."""
    mail_server.reply("gone@example.com", "550 5.1.1 no such user here")
    ids = rows.add_send(["ann@example.com"]) + rows.add_send(["gone@example.com"])
    with caplog.at_level(logging.INFO, logger="app.sends"):
        drain(worker)
    lines = [vars(record) for record in caplog.records if record.name == write.__name__]
    logged = {line["uuid"]: (line["message"], line["request_id"]) for line in lines}
    with worker.database.read() as session:
        expected = {
            row.uuid: (step, session.scalar(select(Send.request_id).where(Send.id == row.send_id)))
            for row, step in zip(map(rows.recipient, ids), ["sent", "bounced"], strict=True)
        }
    assert logged == expected


def test_mails_and_text_messages_leave_in_one_drain(
    rows: Rows, worker: Services, mail_server: MailServer, tmp_path: object
) -> None:
    """Mails and text messages share the queue."""
    mail, text = rows.add_send(["ann@example.com"]) + rows.add_send(["61411111111"], type="sms")
    drain(worker)
    assert rows.states([mail, text]) == ["delivered", "sent"]
    assert (len(mail_server.mails), len(texts(worker.settings.data_dir.parent / "sms"))) == (1, 1)
