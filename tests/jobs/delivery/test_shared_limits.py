"""What all processes that send may use of a relay or gateway together (docs/routes.md#limits)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, func, insert, select

from app.clock import now
from app.db.models import QueueEntry, RunningProcess
from app.infrastructure import shared_rates
from app.infrastructure.heartbeat import Heartbeat
from app.infrastructure.redis_client import CircuitBreaker, connect_redis
from app.infrastructure.sender_share import SenderShare
from app.infrastructure.shared_rates import SharedRates, empty_bucket, reserve
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker, sender_worker_of
from app.services import Services
from tests.jobs.delivery.conftest import Changed, StartDrain
from tests.jobs.delivery.test_fairness import addresses
from tests.jobs.delivery.test_rate import add_sender, send
from tests.support.clocks import clock_of
from tests.support.routing import routing_of
from tests.support.rows import Rows
from tests.support.servers import wait_until
from tests.support.smsc import Smsc
from tests.support.tenants import new_mobile
from tests.unit.transports.mailserver import MailServer

NAMES = ["first", "second"]


def make_pair(make_worker: Changed, **settings: object) -> tuple[Services, Services]:
    """Two processes that know of each other."""
    pair = make_worker(**settings), make_worker(**settings)
    for name, services in zip(NAMES, pair, strict=True):
        services.sender_share.note(NAMES, name)
    return pair


@given(st.integers(0, 50), st.integers(1, 9))
def test_the_shares_of_all_processes_are_the_whole(total: int, processes: int) -> None:
    names = [str(number) for number in range(processes)]
    shares = []
    for name in names:
        share = SenderShare()
        share.note(names, name)
        shares.append(share.connections(total))
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1
    assert shares == sorted(shares, reverse=True)  # the oldest process comes first


def test_a_process_that_starts_has_its_share_before_it_opens_anything(services: Services) -> None:
    """Another one has been sending for a while."""
    share, moment = SenderShare(), now()
    other = {"name": "other", "roles": "sends", "host": "a", "version": "1", "start_time": moment - timedelta(hours=1)}
    with services.database.write() as transaction:
        transaction.execute(delete(RunningProcess))
        transaction.execute(insert(RunningProcess).values(**other, seen_time=moment))
    heartbeat = Heartbeat(services.database, ["sends"], settings=services.settings, share=share)
    heartbeat.start()
    try:
        assert share.connections(3) == 1
    finally:
        heartbeat.stop()
        with services.database.write() as transaction:
            transaction.execute(delete(RunningProcess))


def test_a_process_without_a_heartbeat_keeps_its_share() -> None:
    """It hangs, or has not written one yet."""
    share = SenderShare()
    share.note(NAMES, "second")
    share.note(["first"], "second")
    assert (share.connections(3), share.rate(5.0)) == (1, 2.5)


@pytest.mark.usefixtures("hasty_rows")
@pytest.mark.parametrize("is_named", [False, True])
def test_all_processes_together_open_as_many_connections_as_the_relay_allows(
    rows: Rows, make_worker: Changed, mail_server: MailServer, start_drain: StartDrain, is_named: bool
) -> None:
    settings: dict[str, object] = {} if is_named else {"relay_connections": 3}
    pair = make_pair(make_worker, send_connections=4, **settings)
    with routing_of(pair[0], rows.account_id) as routing:
        if is_named:
            routing.route(routing.transport(mail_server.url(), connections=3))
        rows.add_send(addresses(40))
        with mail_server.hold_answers():
            draining = {services: start_drain(services) for services in pair}

            def are_all_used() -> bool:
                for services, thread in draining.items():
                    if not thread.is_alive():  # it had found nothing: the other one had claimed everything
                        draining[services] = start_drain(services)
                return len(mail_server.unanswered) == 3

            wait_until(are_all_used, "three mails are in flight")
            reached = now()
            wait_until(lambda: are_all_used() and have_returned(rows, reached), "others have waited in vain")
            for services in pair:
                services.stopping.set()
            assert mail_server.sessions == 3
        for thread in draining.values():  # they write what became of their messages, which is deleted next
            thread.join()


def have_returned(rows: Rows, moment: datetime) -> bool:
    """Whether messages were claimed and have gone back to the queue since then."""
    with rows.services.database.read() as session:
        return bool(session.scalar(select(func.count()).where(QueueEntry.ready_time > moment)))


def test_a_process_without_a_connection_leaves_the_messages_to_others(
    rows: Rows, make_worker: Changed, mail_server: MailServer
) -> None:
    first, second = make_pair(make_worker, relay_connections=1)
    ids = rows.add_send(addresses(3))
    drain(second)
    assert rows.states(ids) == ["queued"] * 3
    assert [rows.recipient(recipient_id).attempts for recipient_id in ids] == [0] * 3
    assert mail_server.sessions == 0

    def is_sent() -> bool:
        drain(first)
        return rows.states(ids) == ["delivered"] * 3

    wait_until(is_sent, "the other process sends them")


def test_connections_are_closed_that_a_process_may_not_use_any_more(
    rows: Rows, make_worker: Changed, mail_server: MailServer, start_drain: StartDrain
) -> None:
    worker = make_worker(relay_connections=3, send_connections=3)
    rows.add_send(addresses(3))
    with mail_server.hold_answers():
        draining = start_drain(worker)
        wait_until(lambda: len(mail_server.unanswered) == 3, "three are in flight")
    draining.join()
    worker.sender_share.note(NAMES, "second")
    rows.add_send(["last@example.com"])
    drain(worker)
    wait_until(lambda: len(mail_server.open_sessions) == 1, "two are closed")


def test_connections_are_closed_while_messages_are_sent(
    rows: Rows, make_worker: Changed, mail_server: MailServer, start_drain: StartDrain
) -> None:
    """Two other processes have started meanwhile."""
    worker = make_worker(relay_connections=3, send_connections=3)
    rows.add_send(addresses(400))
    with mail_server.hold_answers():
        draining = start_drain(worker)
        wait_until(lambda: len(mail_server.unanswered) == 3, "three are in flight")
        worker.sender_share.note([*NAMES, "third"], "third")
        mail_server.answer(3)
        wait_until(lambda: len(mail_server.open_sessions) == len(mail_server.unanswered) == 1, "two are closed")
        assert draining.is_alive()


@pytest.fixture
def smsc() -> Iterator[Smsc]:
    with Smsc() as gateway:
        yield gateway


def test_a_gateway_gets_no_more_binds_than_it_allows(
    rows: Rows, make_worker: Changed, smsc: Smsc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text messages that the other process claims are sent by the one that is bound. When that is gone, the other
    one binds."""
    monkeypatch.setattr("app.transports.sms.smpp_bind.LEAVING_SECONDS", 0.0)
    first, second = make_pair(make_worker, sms_transport_url=smsc.url("?binds=1"))
    for services in (second, first):
        sender_worker_of(services, lambda _incoming: True)
    smsc.wait(lambda: smsc.bound)
    (text,) = rows.add_send([new_mobile()], type="sms")
    (mail,) = rows.add_send(addresses(1))
    drain(second)
    assert rows.states([text, mail]) == ["queued", "delivered"]

    def is_sent() -> bool:
        drain(first)
        return rows.states([text]) == ["sent"]

    wait_until(is_sent, "the process that is bound sends it")
    assert len(smsc.binds) == 1
    first.sender_share.note(NAMES[::-1], "first")
    smsc.wait(lambda: not smsc.bound)
    second.sender_share.note(NAMES[::-1], "second")
    smsc.wait(lambda: smsc.bound)
    (other,) = rows.add_send([new_mobile()], type="sms")
    drain(second)
    assert rows.states([other]) == ["sent"]
    assert len(smsc.binds) == 2


def test_without_redis_each_process_keeps_its_share_of_a_rate(rows: Rows, make_worker: Changed) -> None:
    """The turns of two processes together are as far apart as the rate says, and the first one comes after as long."""
    due = []
    for services in make_pair(make_worker):
        lonely = replace(services, redis=connect_redis("redis://127.0.0.1:1"))
        ids = send(rows, add_sender(rows, 0.01), 3)
        before = now()
        drain(lonely)
        close_sender_worker(lonely)
        assert rows.states(ids) == ["queued"] * 3
        due += [(rows.recipient(recipient_id).due_time - before) / timedelta(seconds=100) for recipient_id in ids]
    assert due == pytest.approx([2, 4, 6, 2, 4, 6], abs=0.1)


@given(st.floats(0.01, 200.0), st.lists(st.tuples(st.integers(1, 300), st.floats(0.0, 5.0)), max_size=30))
def test_a_bucket_that_begins_empty_never_exceeds_the_rate(rate: float, claims: list[tuple[int, float]]) -> None:
    clock, sent, bucket = 1000.0, 0, empty_bucket(rate, 1000.0)
    for count, pause in claims:
        clock += pause
        bucket, grant = reserve(bucket, rate, count, clock)
        sent += grant.allowed
        assert sent <= rate * (clock - 1000.0) * (1 + 1e-6) + 1e-6


def test_each_time_without_redis_begins_with_no_message_in_hand(
    worker: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process has saved up since the time before does not count."""
    clock, breaker = clock_of(monkeypatch, shared_rates), CircuitBreaker()
    rates = SharedRates(worker.redis, breaker, SenderShare())
    key = f"tms:sender:test:{new_mobile()}"
    for _ in range(2):
        breaker.open()
        assert rates.take(key, 5.0, 9).allowed == 0
        breaker.close()
        rates.take(key, 5.0, 1)
        clock.ahead += 100
