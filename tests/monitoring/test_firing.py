"""Alerts fire when their condition is caused in a running service, and end when it is repaired: each test causes some
(docs/monitoring/alerts.md). Only the times are shorter (tests/monitoring/prometheus.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.monitoring.test_rules import ALERTS
from tests.monitoring.world import World
from tests.support.servers import wait_until
from tests.unit.transports.mailserver import DROP

pytestmark = pytest.mark.skipif("MONITORING" not in os.environ, reason="`make monitoring` runs it, with Prometheus")

SENDERS, AUTOMATIONS, MAINTENANCE = r"jobs\.worker sends", r"jobs\.worker automations", r"jobs\.worker .*maintenance"
SCHEDULER, API = r"jobs\.schedule", "gunicorn"


def test_an_api_that_does_not_answer(world: World) -> None:
    with world.stopped(API):
        world.alerts.await_firing("TmsApiDown")
    world.alerts.await_quiet("TmsApiDown")


def test_a_database_that_does_not_answer(world: World) -> None:
    with world.postgres.frozen():
        world.alerts.await_firing("TmsDatabaseDown")
        assert world.send().status_code == 503
        wait_until(lambda: world.send().status_code == 503 and world.fires("TmsRequestsFail"), "requests fail")
    world.alerts.await_quiet("TmsDatabaseDown")
    wait_until(lambda: world.send().ok and not world.fires("TmsRequestsFail"), "requests do not fail any more")


def test_a_redis_that_does_not_answer(world: World) -> None:
    with world.redis.frozen():
        world.alerts.await_firing("TmsRedisDown")
    world.alerts.await_quiet("TmsRedisDown")


def test_a_schema_that_is_too_old(world: World) -> None:
    with own_revision(world, "0001"):
        world.alerts.await_firing("TmsSchemaDoesNotFit")
    world.alerts.await_quiet("TmsSchemaDoesNotFit")


@contextmanager
def own_revision(world: World, revision: str) -> Iterator[None]:
    engine = create_engine(world.postgres.url)
    with engine.connect() as connection:
        (before,) = connection.execute(text("SELECT version_num FROM alembic_version")).one()
    engine.dispose()
    world.change(f"UPDATE alembic_version SET version_num = '{revision}'")
    try:
        yield
    finally:
        world.change(f"UPDATE alembic_version SET version_num = '{before}'")


def test_senders_that_hang(world: World) -> None:
    wait_until(
        lambda: world.change("UPDATE processes SET roles = roles WHERE roles = 'sends'"), "they have a heartbeat"
    )
    with world.stopped(SENDERS):
        assert world.send().status_code == 202
        world.alerts.await_firing("TmsMessagesWait")
        # As after the two minutes that make a process silent; their heartbeats do not write meanwhile.
        assert world.change("UPDATE processes SET seen_time = seen_time - interval '5 minutes' WHERE roles = 'sends'")
        world.alerts.await_firing("TmsProcessSilent", "TmsProcessMissing")
    world.alerts.await_quiet("TmsMessagesWait", "TmsProcessSilent", "TmsProcessMissing")


def test_a_host_that_is_lost(world: World) -> None:
    """As another host that was cut off; in the end it is back."""
    seen = "now() - interval '3 minutes'"
    assert world.change(
        "INSERT INTO processes (name, roles, host, version, start_time, seen_time) "
        f"SELECT 'b-1', roles, 'b', version, start_time, {seen} FROM processes WHERE roles = 'scheduler'"
    )
    world.alerts.await_firing("TmsHostLost")
    assert world.change("DELETE FROM processes WHERE host = 'b'")
    world.alerts.await_quiet("TmsHostLost")


def test_a_clock_that_is_wrong(world: World) -> None:
    """The senders do not write meanwhile what they measure."""
    with world.stopped(SENDERS):
        assert world.change("UPDATE processes SET clock_difference = -30 WHERE roles = 'sends'")
        world.alerts.await_firing("TmsClockWrong")
    world.alerts.await_quiet("TmsClockWrong")


def test_a_scheduler_that_hangs(world: World) -> None:
    with world.stopped(SCHEDULER):
        world.alerts.await_firing("TmsSchedulerDoesNotLook")
    world.alerts.await_quiet("TmsSchedulerDoesNotLook")


def test_a_relay_that_closes_each_connection(world: World) -> None:
    world.relay.reply("MAIL", *[DROP] * 100_000)
    assert world.send(30).status_code == 202
    world.alerts.await_firing("TmsRelayUnreachable", "TmsDeferralsHigh")
    world.relay.script.clear()
    names = ("TmsRelayUnreachable", "TmsDeferralsHigh")
    wait_until(lambda: world.send(50).ok and not world.fires(*names), "the relay takes messages")


def test_a_relay_that_refuses_everybody(world: World) -> None:
    world.relay.reply("MAIL", *["550 5.7.1 not from here"] * 100_000)
    wait_until(lambda: world.send(100).ok and world.fires("TmsBouncesHigh"), "messages bounce")
    world.relay.script.clear()
    wait_until(lambda: world.send(50).ok and not world.fires("TmsBouncesHigh"), "messages do not bounce any more")


def test_a_relay_that_refuses_everything_of_an_account(world: World) -> None:
    """Whoever the recipient is: then messages wait."""
    world.relay.always["RCPT"] = "554 5.7.1 Relay access denied"
    people = [{"email": f"ann@{domain}.example"} for domain in ("a", "b", "c")]
    assert world.send(recipients=people).ok
    world.alerts.await_firing("TmsRelayRefuses")
    world.relay.always.clear()
    world.alerts.await_quiet("TmsRelayRefuses")


def test_messages_that_are_held(world: World) -> None:
    with world.stopped(SENDERS):
        assert world.send().status_code == 202
        assert world.change("UPDATE send_queue SET state = 'held' WHERE state = 'queued'")
        world.alerts.await_firing("TmsMessagesHeld")
        world.change("UPDATE send_queue SET state = 'queued' WHERE state = 'held'")
    world.alerts.await_quiet("TmsMessagesHeld")


def test_a_relay_of_a_route_that_is_away(world: World) -> None:
    assert world.send(from_address="hello@other.example").status_code == 202
    world.alerts.await_firing("TmsTransportSetAside")
    world.command("transports", "update", "away", "--url", world.relay.url("?tls=none"))

    def is_used() -> bool:
        return world.send(from_address="hello@other.example").ok and not world.fires("TmsTransportSetAside")

    wait_until(is_used, "the relay is used")


def test_results_that_are_not_written(world: World) -> None:
    journal = world.service.data / "journals" / "large.journal"
    with world.stopped(SENDERS):
        with journal.open("wb") as file:
            file.truncate(200_000_000)
        world.alerts.await_firing("TmsJournalGrows")
        journal.unlink()
    world.alerts.await_quiet("TmsJournalGrows")


def test_workers_of_automations_that_hang(world: World) -> None:
    with world.stopped(AUTOMATIONS):
        assert world.change("UPDATE automation_runs SET due_time = now() - interval '5 minutes'")
        world.alerts.await_firing("TmsAutomationsLate")
    world.alerts.await_quiet("TmsAutomationsLate")


def test_a_receiver_that_does_not_answer_and_one_that_is_away(world: World) -> None:
    world.alerts.await_firing("TmsWebhooksBehind")
    # As on the next day, when it is tried again.
    past = "failing_since = failing_since - interval '2 days', due_time = now()"
    assert world.change(f"UPDATE webhooks SET {past} WHERE failures > 0")
    world.alerts.await_firing("TmsWebhookFailedForADay")
    world.alerts.await_quiet("TmsWebhookFailedForADay")
    world.receiver_opened.set()
    world.change("DELETE FROM webhooks WHERE failures > 0")
    world.alerts.await_quiet("TmsWebhooksBehind")


def test_a_cleaning_that_is_late(world: World) -> None:
    """The worker that cleans hangs."""

    def is_clean() -> bool:
        world.clean()
        return not world.fires("TmsCleaningLate")

    wait_until(is_clean, "it is clean")
    with world.stopped(MAINTENANCE):
        world.clean()
        world.alerts.await_firing("TmsCleaningLate")
    wait_until(is_clean, "it cleans again")


def test_purging_that_is_late(world: World) -> None:
    """The worker that purges hangs."""
    assert world.send().ok
    with world.stopped(MAINTENANCE):
        assert world.change("UPDATE sends SET creation_time = creation_time - interval '9 days'")
        world.alerts.await_firing("TmsPurgingLate")

    def is_purged() -> bool:
        world.clean()
        return not world.fires("TmsPurgingLate")

    wait_until(is_purged, "it is purged")


def test_a_backup_that_is_old(world: World, tmp_path: Path) -> None:
    """Nobody is told before there is one."""
    numbers = count()

    def is_new() -> bool:
        world.command("backup", str(tmp_path / f"{next(numbers)}.zip"))
        return not world.fires("TmsBackupOld")

    assert is_new()
    world.alerts.await_firing("TmsBackupOld")
    wait_until(is_new, "there is a new one")


def test_requests_that_wait_for_a_lock(world: World) -> None:
    def is_slow() -> bool:
        with world.locked("transactional_groups", seconds=2):
            assert world.send().ok
        return world.fires("TmsRequestsSlow")

    wait_until(is_slow, "requests are slow")
    wait_until(lambda: world.send().ok and not world.fires("TmsRequestsSlow"), "they are quick again")


def test_requests_that_find_no_free_connection(world: World) -> None:
    """Each of the two processes has eight threads and three connections, all of which wait for a lock."""

    def is_exhausted() -> bool:
        with world.locked("transactional_groups", seconds=4), ThreadPoolExecutor(16) as pool:
            answers = {answer.status_code for answer in pool.map(lambda _: world.send(), range(16))}
        assert answers <= {202, 503}
        return world.fires("TmsConnectionsExhausted")

    wait_until(is_exhausted, "connections are exhausted")
    wait_until(lambda: world.send().ok and not world.fires("TmsConnectionsExhausted"), "there are free ones")


def test_messages_that_are_handed_over_late(world: World) -> None:
    def is_late() -> bool:
        with world.stopped(SENDERS):
            assert world.send(20).ok
            world.alerts.await_firing("TmsMessagesWait")
        world.alerts.await_quiet("TmsMessagesWait")
        return world.fires("TmsHandoverSlow")

    wait_until(is_late, "messages are late")
    assert world.send().ok
    world.alerts.await_quiet("TmsHandoverSlow")


def test_a_relay_that_cuts_the_connection_after_the_end_of_a_message(world: World) -> None:
    world.relay.reply(".", DROP)
    assert world.send().ok
    world.alerts.await_firing("TmsMessagesUncertain")
    # As after the quarter of an hour, when it is sent again.
    assert world.change("UPDATE send_queue SET due_time = now() WHERE state = 'uncertain'")
    world.alerts.await_quiet("TmsMessagesUncertain")


def test_every_rule_is_caused_in_this_module() -> None:
    """Every rule is also seen to end."""
    source = Path(__file__).read_text("utf-8")
    for name in ALERTS:
        assert source.count(f'"{name}"') > 1, name
