"""Shared fixtures for delivery: services of a worker, a real mail server, and rows to deliver."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from app.db.models import DomainBackoff, QueueEntry, Recipient, RelayRefusal, SendPause
from app.sends.delivery import drain as drain_module
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from app.sends.outcomes import write
from app.sends.queue_begin import REDIS_KEY
from app.services import Services
from tests.jobs.conftest import changed
from tests.support.clocks import ClockAhead, clock_of
from tests.support.rows import Rows
from tests.unit.transports.mailserver import MailServer

Changed = Callable[..., Services]
StartDrain = Callable[[Services], threading.Thread]


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """A mail server that stores the mail it receives and answers as scripted."""
    with MailServer() as server:
        yield server


@pytest.fixture
def make_worker(services: Services, mail_server: MailServer, tmp_path: Path) -> Iterator[Changed]:
    """`make_worker(setting=…)` returns the services of another worker process, closed after the test."""
    workers: list[Services] = []
    with services.database.write() as transaction:
        transaction.execute(delete(Recipient))
        transaction.execute(delete(QueueEntry))
        transaction.execute(delete(DomainBackoff))
        transaction.execute(delete(RelayRefusal))
        transaction.execute(delete(SendPause))
    services.redis.delete(REDIS_KEY)

    def make(**settings: Any) -> Services:
        values = {
            "data_dir": tmp_path / "data",
            "email_transport_url": mail_server.url(),
            "sms_transport_url": f"file://{tmp_path / 'sms'}",
            "retry_delay": 30.0,
            **settings,
        }
        workers.append(changed(services, **values))
        return workers[-1]

    yield make
    for worker_services in workers:
        close_sender_worker(worker_services)


@pytest.fixture
def start_drain() -> Iterator[StartDrain]:
    """`start_drain(worker)` drains in a thread, which is stopped after the test at the latest."""
    started: list[tuple[Services, threading.Thread]] = []

    def start(worker: Services) -> threading.Thread:
        thread = threading.Thread(target=drain, args=(worker,))
        started.append((worker, thread))
        thread.start()
        return thread

    yield start
    for worker, thread in started:
        worker.stopping.set()
        thread.join()


@pytest.fixture
def drain_clock(monkeypatch: pytest.MonkeyPatch) -> ClockAhead:
    """The clock of drains."""
    clock = clock_of(monkeypatch, drain_module)
    monkeypatch.setattr(drain_module, "uptime", clock.uptime)
    return clock


@pytest.fixture
def hasty_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claimed rows soon go back to the queue if they find no connection. In other tests they wait as long as a test
    may take."""
    monkeypatch.setattr(drain_module, "MAX_WAIT", 0.5)


@pytest.fixture
def worker(make_worker: Changed) -> Services:
    """The services of a worker."""
    return make_worker()


@pytest.fixture
def rows(worker: Services, account_id: int) -> Rows:
    """Rows of a new account."""
    return Rows(worker, account_id)


def parsed(content: bytes) -> EmailMessage:
    """A mail as a mail program parses it."""
    message = message_from_bytes(content, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def body(message: EmailMessage, kind: str) -> str:
    """The text of the `plain` or `html` body."""
    part = message.get_body((kind,))
    assert part is not None
    return str(part.get_content())


def events(rows: Rows) -> list[dict[str, Any]]:
    """The events of the account, oldest first."""
    return [json.loads(payload) for payload in rows.payloads()]


def texts(folder: Path) -> list[dict[str, Any]]:
    """The text messages in a folder."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]


def cid_of(html: str) -> str:
    """The Content-ID that an HTML body refers to."""
    match = re.search(r"cid:(content_[A-Za-z0-9_]+)", html)
    assert match, html
    return match[1]


def fail_writing(patch: pytest.MonkeyPatch, failing: Callable[..., Any]) -> None:
    """Replaces the writing of outcomes by `failing`, including that of single ones."""
    for module in (drain_module, write):
        patch.setattr(module, "write_outcomes", failing)
