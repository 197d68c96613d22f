"""The loss of a host, with its journals: what its senders had mirrored in Redis is not sent again
(docs/crash-safety.md)."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy import text

from app.clock import now
from app.infrastructure.redis_client import connect_redis
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker, sender_worker_of
from app.sends.outcomes import mirror as mirror_module
from app.sends.outcomes.attempt_result import AttemptResult, Journal, journal_folder
from app.sends.outcomes.mirror import MAX_UNMIRRORED, Mirror, mirror_key
from app.sends.outcomes.recovery import MIRROR_PATIENCE, recover_expired_leases
from app.services import Services
from tests.jobs.delivery.conftest import Changed, StartDrain
from tests.jobs.delivery.test_crash import Killer, attempt_result, claim_rows, killer, times_received
from tests.jobs.delivery.test_fairness import addresses
from tests.support.redis_process import running_redis
from tests.support.rows import Rows
from tests.support.servers import PATIENCE, wait_until
from tests.support.tenants import unique
from tests.unit.transports.mailserver import MailServer

__all__ = ["killer"]

pytestmark = pytest.mark.postgresql("a database of SQLite is lost with the host")

NO_REDIS = Redis(host="127.0.0.1", port=1, retry=Retry(NoBackoff(), 0))


@contextmanager
def unwritable(services: Services) -> Iterator[None]:
    """Inside the block recipients can be claimed and read, but no outcome is written: who tries waits."""
    with services.database.write() as transaction:
        transaction.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        transaction.execute(text("LOCK TABLE recipients IN SHARE ROW EXCLUSIVE MODE"))
        yield


def test_the_loss_of_a_host_doubles_at_most_what_was_not_mirrored(
    rows: Rows, make_worker: Changed, killer: Killer, tmp_path: Path
) -> None:
    """A sender is killed and its data folder removed, before it has written any outcome. Another host recovers its
    leases when they have ended."""
    ids = rows.add_send(addresses(100))
    lost = make_worker(email_transport_url=killer.url(), send_connections=1, data_dir=tmp_path / "lost")
    with unwritable(lost):
        assert killer.kill(lost, "MAIL", 91) == -signal.SIGKILL
    assert len(killer.mails) == 90
    assert set(rows.states(ids)) == {"sending"}
    shutil.rmtree(tmp_path / "lost")
    rows.change(ids, lease_time=now())
    other = make_worker(email_transport_url=killer.url(), data_dir=tmp_path / "other")

    def is_delivered() -> bool:
        drain(other)
        return set(rows.states(ids)) == {"delivered"}

    wait_until(is_delivered, "the other host has delivered the rest")
    received = times_received(killer)
    assert set(received) == set(addresses(100))
    assert received.total() - 100 <= MAX_UNMIRRORED
    assert rows.group_of(ids[0]).delivered == 100


def test_no_more_messages_are_begun_than_the_loss_of_the_host_may_double(
    rows: Rows,
    make_worker: Changed,
    mail_server: MailServer,
    start_drain: StartDrain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While Redis takes its time, the sender waits with results that are not mirrored; then it goes on."""
    monkeypatch.setattr(mirror_module, "HOLD_SECONDS", PATIENCE)
    rows.add_send(addresses(60))
    with running_redis() as process, connect_redis(process.url, wait=PATIENCE) as client:
        worker = replace(make_worker(send_connections=1), redis=client)
        try:
            with unwritable(worker):
                with process.frozen():
                    draining = start_drain(worker)
                    wait_until(lambda: len(mail_server.mails) >= MAX_UNMIRRORED, "it has sent as many")
                    draining.join(0.3)
                    assert len(mail_server.mails) == MAX_UNMIRRORED
                wait_until(lambda: len(mail_server.mails) == 60, "it goes on")
            draining.join(PATIENCE)
        finally:
            close_sender_worker(worker)
    assert times_received(mail_server) == Counter(addresses(60))


def mirror_results(worker: Services, name: str, *results: AttemptResult) -> None:
    """What a sender of that name had mirrored when its host was lost."""
    mirror = Mirror(worker.redis, name, worker.settings.secret_key)
    for result in results:
        mirror.add(result.recipient_id, result.line())
    mirror.close()


def test_what_a_lost_host_had_mirrored_is_written_before_its_leases_are_taken_over(
    rows: Rows, worker: Services
) -> None:
    """Not before they have ended: until then it may be alive."""
    name = unique("elsewhere")
    sent, begun = claim_rows(worker, rows, name, 2)
    mirror_results(worker, name, attempt_result(sent))
    recover_expired_leases(worker)
    assert rows.states([sent, begun]) == ["sending", "sending"]
    rows.change([sent, begun], lease_time=now())
    recover_expired_leases(worker)
    assert rows.states([sent, begun]) == ["delivered", "queued"]
    assert [step for step, _ in rows.steps(sent)] == ["sent"]
    assert not worker.redis.exists(mirror_key(name))


def test_a_mirror_completes_a_journal_of_this_machine_that_was_cut(rows: Rows, worker: Services) -> None:
    """Journals are not synced to the disk: a power failure takes their ends."""
    name = unique("here")
    first, last = claim_rows(worker, rows, name, 2)
    journal = Journal(journal_folder(worker.settings), name)
    journal.append(attempt_result(first))
    journal.close()
    mirror_results(worker, name, attempt_result(first), attempt_result(last))
    recover_expired_leases(worker)
    assert rows.states([first, last]) == ["delivered", "delivered"]
    assert not worker.redis.exists(mirror_key(name))


def test_a_lost_hosts_messages_wait_for_redis_for_another_lease_at_most(rows: Rows, worker: Services) -> None:
    """As long as it may still say that they were sent."""
    name, without_redis = unique("elsewhere"), replace(worker, redis=NO_REDIS)
    (ann,) = claim_rows(worker, rows, name)
    rows.change([ann], lease_time=now())
    recover_expired_leases(without_redis)
    assert rows.states([ann]) == ["sending"]
    rows.change([ann], lease_time=now() - MIRROR_PATIENCE)
    recover_expired_leases(without_redis)
    assert rows.states([ann]) == ["queued"]


def test_messages_of_this_machine_do_not_wait_for_redis(rows: Rows, worker: Services) -> None:
    """Their journal is here."""
    name, without_redis = unique("here"), replace(worker, redis=NO_REDIS)
    sent, begun = claim_rows(worker, rows, name, 2)
    journal = Journal(journal_folder(worker.settings), name)
    journal.append(attempt_result(sent))
    journal.close()
    recover_expired_leases(without_redis)
    assert rows.states([sent, begun]) == ["delivered", "queued"]


def test_a_sender_that_has_written_everything_leaves_no_mirror(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    ids = rows.add_send(addresses(50))
    name = sender_worker_of(worker).name
    drain(worker)
    close_sender_worker(worker)
    assert rows.states(ids) == ["delivered"] * 50
    assert not worker.redis.exists(mirror_key(name))
    assert times_received(mail_server) == Counter(addresses(50))
