"""Alerts fire when their condition is caused in a running service, and end when it is repaired: each test causes some
(docs/monitoring/alerts.md).

The conditions that need what a test cannot cause in seconds (slow hand-overs, no free connection, a cleaning that is
hours late, a mail that is uncertain for an hour) are proven by their samples in test_rules.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from sqlalchemy import create_engine, text

from tests.monitoring.prometheus import Prometheus, prometheus
from tests.support.launched import ROOT, SEED, Launched
from tests.support.own_postgres import OwnPostgres, own_postgres
from tests.support.redis_process import RedisProcess, running_redis
from tests.support.servers import free_port, short_folder, wait_until
from tests.support.webhook_receiver import Receiver, Reply
from tests.unit.transports.mailserver import DROP, MailServer

pytestmark = pytest.mark.skipif("MONITORING" not in os.environ, reason="`make monitoring` runs it, with Prometheus")

SENDERS, AUTOMATIONS = r"jobs\.worker sends", r"jobs\.worker automations"
SCHEDULER, API = r"jobs\.schedule", "gunicorn"


SECRETS = [{"id": "k1", "secret": "a-secret-of-the-tests-of-alerts-0123456789"}]


def seed_file(folder: Path, receiver: Receiver) -> Path:
    """An account with an automation that waits, a webhook, one that nobody listens to, and a relay that is away."""
    (account,) = SEED["accounts"]
    sender = {"from_name": "Acme", "from_address": "hello@acme.example"}
    more: dict[str, Any] = {
        "domains": ["acme.example", "other.example"],
        "messages": [{"name": "Welcome", "type": "email", "subject": "Hello", "body_text": "Hello", **sender}],
        "webhooks": [
            {"url": receiver.url, "secrets": SECRETS, "events": ["recipient.sent"]},
            {"url": f"http://127.0.0.1:{free_port()}/", "secrets": SECRETS, "events": ["contact.created"]},
        ],
        "automations": [
            {
                **{"name": "Welcome", "kind": "standard", "list": "Customers", "message": "Welcome", "after": "2 days"},
                "trigger": "When a Contact is created from the REST API",
            }
        ],
    }
    away = {"name": "away", "type": "email", "url": f"smtp://127.0.0.1:{free_port()}?tls=none"}
    route = {"name": "other", "type": "email", "sender_domain": "other.example", "transports": ["away", "default"]}
    file = folder / "alerts-seed.yaml"
    file.write_text(
        yaml.safe_dump({"accounts": [{**account, **more}], "transports": [away], "routes": [route]}), "utf-8"
    )
    return file


@dataclass
class World:
    """A service on PostgreSQL, and what it depends on."""

    service: Launched
    postgres: OwnPostgres
    redis: RedisProcess
    relay: MailServer
    receiver_opened: threading.Event
    """The receiver of events answers once this is set."""
    alerts: Prometheus

    def send(self, count: int = 1, **changes: object) -> requests.Response:
        """Makes a send to new people."""
        people = [{"email": f"p{uuid.uuid4().hex}@example.com"} for _ in range(count)]
        body = {"type": "email", "list_id": 1, "group_name": "Alerts", "subject": "Hello", "body_text": "Hello"}
        sender = {"from_name": "Acme", "from_address": "hello@acme.example", "recipients": people}
        return requests.post(
            f"{self.service.base}/v1/transactional-sends",
            json={**body, **sender, **changes},
            headers={"Authorization": f"Bearer {SEED['accounts'][0]['keys'][0]['token']}"},
            timeout=60,
        )

    def change(self, statement: str) -> int:
        """Changes rows behind the back of the service, as the passing of time would; returns how many."""
        engine = create_engine(self.postgres.url)
        with engine.begin() as connection:
            changed: int = connection.execute(text(statement)).rowcount
        engine.dispose()
        return changed

    def command(self, *arguments: str) -> None:
        """Runs a command of the service."""
        flask = (str(ROOT / ".venv" / "bin" / "flask"), "--app", "wsgi")
        subprocess.run((*flask, *arguments), cwd=ROOT, env=self.service.environment, check=True, capture_output=True)

    @contextmanager
    def stopped(self, *commands: str) -> Iterator[None]:
        """Suspends all processes of these commands inside the block."""
        pids = [pid for command in commands for pid in self.service.pids(command)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        database = stack.enter_context(own_postgres())
        redis = stack.enter_context(running_redis())
        relay = stack.enter_context(MailServer())
        opened = threading.Event()
        stack.callback(opened.set)
        receiver = stack.enter_context(Receiver(Reply(gate=opened)))
        service = Launched(
            folder,
            SEED=str(seed_file(folder, receiver)),
            DATABASE_URL=database.url,
            REDIS_URL=redis.url,
            EMAIL_TRANSPORT_URL=relay.url("?tls=none"),
            RETRY_DELAY="1",
            WEBHOOK_SPACING="1",
            WEBHOOK_ALLOW_PRIVATE="on",
            RATE_LIMIT="off",
        )
        stack.callback(service.clear)
        service.start()
        (own := folder / "prometheus").mkdir()
        alerts = stack.enter_context(prometheus(own, f"127.0.0.1:{service.port}"))
        one = World(service, database, redis, relay, opened, alerts)
        wait_until(lambda: one.send().status_code == 202, "a send is accepted")
        alerts.await_quiet("TmsApiDown", "TmsDatabaseDown", "TmsProcessMissing", "TmsSchedulerDoesNotLook")
        yield one


def test_an_api_that_does_not_answer(world: World) -> None:
    with world.stopped(API):
        world.alerts.await_firing("TmsApiDown")
    world.alerts.await_quiet("TmsApiDown")


def test_a_database_that_does_not_answer(world: World) -> None:
    with world.postgres.frozen():
        world.alerts.await_firing("TmsDatabaseDown")
        assert world.send().status_code == 503
        wait_until(lambda: world.send().status_code == 503 and fires(world, "TmsRequestsFail"), "requests fail")
    world.alerts.await_quiet("TmsDatabaseDown")
    wait_until(lambda: world.send().ok and not fires(world, "TmsRequestsFail"), "requests do not fail any more")


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
    wait_until(lambda: world.send(50).ok and not fires(world, *names), "the relay takes messages")


def test_a_relay_that_refuses_everybody(world: World) -> None:
    world.relay.reply("MAIL", *["550 5.7.1 not from here"] * 100_000)
    wait_until(lambda: world.send(100).ok and fires(world, "TmsBouncesHigh"), "messages bounce")
    world.relay.script.clear()
    wait_until(lambda: world.send(50).ok and not fires(world, "TmsBouncesHigh"), "messages do not bounce any more")


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
        return world.send(from_address="hello@other.example").ok and not fires(world, "TmsTransportSetAside")

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
    assert world.change("UPDATE webhooks SET failing_since = failing_since - interval '2 days' WHERE failures > 0")
    world.alerts.await_firing("TmsWebhookFailedForADay")
    world.alerts.await_quiet("TmsWebhookFailedForADay")
    world.receiver_opened.set()
    world.change("DELETE FROM webhooks WHERE failures > 0")
    world.alerts.await_quiet("TmsWebhooksBehind")


def fires(world: World, *names: str) -> bool:
    """Whether any of them fires."""
    return bool(set(names) & world.alerts.firing())
