"""Journals that cannot be written, read or removed, by whatever the system says: no sender dies of it, nothing is lost
or sent twice, and sending goes on as soon as it can (docs/crash-safety.md).

The tests run as root, whom permissions do not stop: a folder is replaced by a file, and files have a greatest size.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from app.clock import now
from app.sends.delivery import sender_worker as sender_worker_module
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker, renew_sender_worker, sender_worker_of
from app.sends.outcomes.attempt_result import AttemptResult, Journal, journal_folder
from app.services import Services
from app.transports.base import DeliveryResult
from tests.jobs.delivery.test_fairness import addresses
from tests.support.rows import Rows
from tests.support.servers import PATIENCE, wait_until
from tests.unit.transports.mailserver import MailServer


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries again at once."""
    for module in ("sender_worker", "drain"):
        monkeypatch.setattr(f"app.sends.delivery.{module}.JOURNAL_RETRY_DELAY", 0.01)


@contextmanager
def replaced_by_a_file(folder: Path) -> Iterator[None]:
    """Nothing in the folder can be opened inside the block, and nothing created."""
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name("aside")
    folder.rename(aside)
    folder.touch()
    try:
        yield
    finally:
        folder.unlink()
        aside.rename(folder)


ROOM = 64 * 1024 * 1024
"""The maximum size of a file in bytes. No other file of the test gets so large."""


def fill(worker: Services) -> None:
    """Makes the journal as long as a file may be."""
    os.truncate(journal_folder(worker.settings) / f"{sender_worker_of(worker).name}.journal", ROOM)


@contextmanager
def full(worker: Services) -> Iterator[None]:
    """There is no room for another byte in the journal inside the block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    fill(worker)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def received(server: MailServer) -> list[str]:
    return sorted(mail.recipients[0] for mail in server.mails)


def test_a_sender_that_cannot_create_its_journal_waits_for_it(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    ids = rows.add_send(addresses(3))
    with replaced_by_a_file(journal_folder(worker.settings)):
        drain(worker)
        assert (rows.states(ids), mail_server.mails) == (["queued"] * 3, [])
    drain(worker)
    assert (rows.states(ids), received(mail_server)) == (["delivered"] * 3, addresses(3))


def test_a_sender_whose_folder_is_replaced_sends_nothing_until_it_is_back(
    rows: Rows, worker: Services, mail_server: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    rows.add_send(["first@example.com"])
    drain(worker)
    ids = rows.add_send(addresses(3))
    with replaced_by_a_file(journal_folder(worker.settings)):
        for _ in range(3):
            drain(worker)
        assert (rows.states(ids), len(mail_server.mails)) == (["queued"] * 3, 1)
        assert [rows.recipient(recipient_id).attempts for recipient_id in ids] == [0, 0, 0]
    drain(worker)
    assert (rows.states(ids), received(mail_server)) == (
        ["delivered"] * 3,
        sorted(["first@example.com", *addresses(3)]),
    )
    said = [record.getMessage() for record in caplog.records if record.name == sender_worker_module.__name__]
    assert [line.partition(":")[0] for line in said] == [
        "sending waits",
        "the journal can be written again; sending continues",
    ]


def test_a_result_that_cannot_be_journalled_is_written_to_the_database_and_nothing_more_is_sent(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """The sender learns of a full disk by the first result."""
    rows.add_send(["first@example.com"])
    drain(worker)
    with full(worker):
        sent = rows.add_send(["second@example.com"])
        drain(worker)
        assert rows.states(sent) == ["delivered"]
        ids = rows.add_send(addresses(3))
        fill(worker)  # it was emptied, since all is in the database
        drain(worker)
        assert (rows.states(ids), len(mail_server.mails)) == (["queued"] * 3, 2)
        fill(worker)
    drain(worker)
    assert (rows.states(ids), len(mail_server.mails)) == (["delivered"] * 3, 5)


def test_a_journal_whose_file_is_gone_is_written_anew_with_what_it_had(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "worker")
    results = [AttemptResult(number, 1, None, now(), DeliveryResult.accepted("ok")) for number in range(3)]
    journal.append(results[0])
    (tmp_path / "worker.journal").unlink()
    journal.append(results[1])
    journal.repair()
    journal.append(results[2])
    assert (tmp_path / "worker.journal").read_bytes() == b"".join(result.line() for result in results)
    journal.close()


def dead_worker(worker: Services, rows: Rows, ids: list[int]) -> Path:
    """The journal of a worker that has died with leases that have run out; it knows that one mail was sent."""
    folder = journal_folder(worker.settings)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "dead.journal"
    path.write_bytes(AttemptResult(ids[0], 1, "a@example.com", now(), DeliveryResult.accepted("ok")).line())
    past = now() - timedelta(seconds=1)
    rows.change(ids, state="sending", worker="dead", lease_time=past, attempts=1)
    return path


def test_rows_of_a_worker_whose_journal_cannot_be_read_wait_for_it(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """Requeued, what it knows as sent would be sent again; others are recovered meanwhile."""
    readable, unknown, other = rows.add_send(["a@example.com", "b@example.com", "c@example.com"])
    journal = dead_worker(worker, rows, [readable, unknown])
    rows.change([other], state="sending", worker="elsewhere", lease_time=now() - timedelta(seconds=1), attempts=1)
    aside = journal.rename(journal.with_suffix(".aside"))
    journal.mkdir()  # it can be opened and locked, but not read
    drain(worker)
    assert rows.states([readable, unknown, other]) == ["sending", "sending", "delivered"]
    journal.rmdir()
    aside.rename(journal)
    drain(worker)
    assert rows.states([readable, unknown]) == ["delivered", "delivered"]
    assert received(mail_server) == ["b@example.com", "c@example.com"]


def test_nothing_is_recovered_while_the_folder_of_the_journals_cannot_be_read(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    ids = rows.add_send(["a@example.com", "b@example.com"])
    dead_worker(worker, rows, ids)
    with replaced_by_a_file(journal_folder(worker.settings)):
        drain(worker)
        sender_worker_of_any(worker)
        assert rows.states(ids) == ["sending", "sending"]
    drain(worker)
    assert (rows.states(ids), received(mail_server)) == (["delivered"] * 2, ["b@example.com"])


def sender_worker_of_any(worker: Services) -> None:
    """A drain that has crashed renews the sender worker, or leaves it to the next one."""
    renew_sender_worker(worker)
    close_sender_worker(worker)


def test_a_worker_process_that_starts_without_its_folder_sends_once_it_is_there(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """The process neither ends nor needs another start."""
    settings = worker.settings
    variables = {
        **os.environ, "DATABASE_URL": settings.database_url, "REDIS_URL": settings.redis_url,
        "DATA_DIR": str(settings.data_dir), "SECRET_KEY": settings.secret_key,
        "EMAIL_TRANSPORT_URL": settings.email_transport_url,
    }  # fmt: skip
    said = threading.Event()
    with replaced_by_a_file(journal_folder(settings)):
        (ann,) = rows.add_send(["ann@example.com"])
        command = [sys.executable, "-m", "jobs.worker", "sends"]
        process = subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True)

        def read() -> None:
            for line in process.stderr or ():
                if "sending waits" in line:
                    said.set()

        reader = threading.Thread(target=read)
        reader.start()
        try:
            assert said.wait(PATIENCE)
        except BaseException:
            process.kill()
            raise
    try:
        wait_until(lambda: rows.states([ann]) == ["delivered"], "it is sent")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        reader.join()
        assert process.stderr is not None
        process.stderr.close()
    assert received(mail_server) == ["ann@example.com"]
