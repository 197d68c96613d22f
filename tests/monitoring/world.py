"""A service that Prometheus watches, and what it depends on, which the tests of alerts break."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml
from sqlalchemy import create_engine, text

from app.infrastructure.redis_client import MAINTENANCE, WakeUps, connect_redis
from tests.monitoring.prometheus import Prometheus, prometheus
from tests.support.launched import ROOT, SEED, LaunchedService
from tests.support.own_postgres import OwnPostgres, own_postgres
from tests.support.redis_process import RedisProcess, running_redis
from tests.support.servers import free_port, short_folder, wait_until
from tests.support.webhook_receiver import Receiver, Reply
from tests.unit.transports.mailserver import MailServer

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

    service: LaunchedService
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

    def clean(self) -> None:
        """Asks for a cleaning, as the scheduler does each hour."""
        with connect_redis(self.redis.url) as redis:
            WakeUps(redis).wake(MAINTENANCE)

    @contextmanager
    def locked(self, table: str, seconds: float) -> Iterator[None]:
        """Another connection locks a table for `seconds`, from before the block on."""
        hold = f"DO $$ BEGIN LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE; PERFORM pg_sleep({seconds}); END $$"
        locks = (
            f"SELECT count(*) FROM pg_locks WHERE relation = '{table}'::regclass AND granted "
            "AND mode = 'AccessExclusiveLock'"
        )
        with ThreadPoolExecutor(1) as pool:
            holding = pool.submit(self.change, hold)
            wait_until(lambda: holding.done() or self.number(locks), f"{table} is locked")
            yield
            holding.result()

    def number(self, statement: str) -> int:
        """What a statement counts."""
        engine = create_engine(self.postgres.url)
        with engine.connect() as connection:
            count: int = connection.execute(text(statement)).scalar_one()
        engine.dispose()
        return count

    def fires(self, *names: str) -> bool:
        """Whether any of these alerts fires."""
        return bool(set(names) & self.alerts.firing())

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


@contextmanager
def watched_service() -> Iterator[World]:
    """Starts all of it, and waits until no alert of a start is left."""
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        database = stack.enter_context(own_postgres())
        redis = stack.enter_context(running_redis())
        relay = stack.enter_context(MailServer())
        opened = threading.Event()
        stack.callback(opened.set)
        receiver = stack.enter_context(Receiver(Reply(gate=opened)))
        service = LaunchedService(
            folder,
            SEED=str(seed_file(folder, receiver)),
            DATABASE_URL=database.url,
            REDIS_URL=redis.url,
            EMAIL_TRANSPORT_URL=relay.url("?tls=none"),
            RETRY_DELAY="1",
            WEBHOOK_SPACING="1",
            WEBHOOK_ALLOW_PRIVATE="on",
            RATE_LIMIT="off",
            DATABASE_POOL="3",
            WEB_THREADS="8",
        )
        stack.callback(service.clear)
        service.start()
        (prometheus_folder := folder / "prometheus").mkdir()
        alerts = stack.enter_context(prometheus(prometheus_folder, f"127.0.0.1:{service.port}"))
        world = World(service, database, redis, relay, opened, alerts)
        wait_until(lambda: world.send().status_code == 202, "a send is accepted")
        alerts.await_quiet("TmsApiDown", "TmsDatabaseDown", "TmsProcessMissing", "TmsSchedulerDoesNotLook")
        yield world
