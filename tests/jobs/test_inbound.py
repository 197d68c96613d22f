"""The process that receives inbound mail: `python -m jobs.inbound`."""

from __future__ import annotations

import os
import signal
import smtplib
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.tracking.return_path import return_path
from tests.jobs.running import Alone, alone
from tests.support.forked import Forked, run_module
from tests.support.mail_reports import delivery_failure
from tests.support.rows import FROM, Rows
from tests.support.servers import PATIENCE, free_port, wait_until


@dataclass(frozen=True)
class Inbound:
    """The process and its log."""

    process: Forked
    log: Path

    def lines(self) -> list[str]:
        """The log without the line about the database and the transports."""
        first, *further = self.log.read_text().splitlines()
        assert "using the database" in first
        return further

    def first_line(self) -> str:
        """The first of these lines, once there is one."""
        wait_until(lambda: self.log.exists() and self.log.read_text().count("\n") > 1, "it has written two lines")
        return self.lines()[0]


@contextmanager
def started(parts: Alone, **overrides: str) -> Iterator[Inbound]:
    """The process with the settings of `parts`; killed if it does not end by itself."""
    settings = parts.services.settings
    own = {"DATA_DIR": str(settings.data_dir), "DATABASE_URL": settings.database_url, "LOG_FORMAT": "json"}
    log = settings.data_dir / "inbound.log"
    process = Forked(log, run_module, {**own, "SECRET_KEY": settings.secret_key, **overrides}, "jobs.inbound")
    try:
        yield Inbound(process, log)
    finally:
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_accepts_a_report_and_ends_when_asked(number: signal.Signals) -> None:
    """It does not wait for the end of an open connection."""
    port = free_port()
    with alone(None) as parts, started(parts, INBOUND_LISTEN=f"127.0.0.1:{port}") as inbound:
        rows = Rows(parts.services, parts.tenant.id)
        (recipient_id,) = rows.add_send(["ann@example.com"])
        rows.change([recipient_id], state="delivered", attempts=1)
        to = return_path(parts.services.settings, recipient_id, FROM)
        assert "listening" in inbound.first_line()
        with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client:
            assert client.sendmail("<>", [to], delivery_failure(to, "ann@example.com")) == {}
            assert rows.recipient(recipient_id).state == "bounced"
            inbound.process.send_signal(number)
            assert inbound.process.wait() == 0


def test_without_the_setting_it_waits_for_a_signal() -> None:
    """So a process manager can always start it."""
    with alone(None) as parts, started(parts) as inbound:
        assert "INBOUND_LISTEN is not set" in inbound.first_line()
        inbound.process.send_signal(signal.SIGTERM)
        assert inbound.process.wait() == 0


def test_a_port_in_use_is_reported_in_one_line() -> None:
    with alone(None) as parts, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with started(parts, INBOUND_LISTEN=f"127.0.0.1:{taken.getsockname()[1]}") as inbound:
            assert inbound.process.wait() == 1
            (line,) = inbound.lines()
            assert line.startswith("INBOUND_LISTEN: cannot listen there: ")


def test_newer_code_takes_over_its_sockets(tmp_path: Path) -> None:
    """A message that is on its way is answered, and a client that connects meanwhile waits for its greeting."""
    port, log = free_port(), tmp_path / "log"
    with alone(None) as parts, own_process(parts, log, INBOUND_LISTEN=f"127.0.0.1:{port}") as process:
        rows = Rows(parts.services, parts.tenant.id)
        first, second = rows.add_send(["ann@example.com", "bob@example.com"])
        rows.change([first, second], state="delivered", attempts=1)
        wait_until(lambda: "listening" in log.read_text(), "it listens")
        with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client, smtplib.SMTP("127.0.0.1", port) as idle:
            to = return_path(parts.services.settings, first, FROM)
            client.ehlo()
            client.mail("<>")
            process.send_signal(signal.SIGUSR2)
            assert idle.getreply()[0] == 421
            with smtplib.SMTP(timeout=PATIENCE) as waiting:
                waiting.sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
                client.rcpt(to)
                assert client.data(delivery_failure(to, "ann@example.com"))[0] == 250
                assert client.getreply()[0] == 421
                assert waiting.getreply()[0] == 220
                to = return_path(parts.services.settings, second, FROM)
                assert waiting.sendmail("<>", [to], delivery_failure(to, "bob@example.com")) == {}
        assert [rows.recipient(each).state for each in (first, second)] == ["bounced", "bounced"]
        process.terminate()
        assert process.wait(PATIENCE) == 0


@contextmanager
def own_process(parts: Alone, log: Path, **overrides: str) -> Iterator[subprocess.Popen[bytes]]:
    """The process with a command line of its own, by which it can be replaced; killed if it does not end by itself."""
    settings = parts.services.settings
    own = {"DATA_DIR": str(settings.data_dir), "DATABASE_URL": settings.database_url, "LOG_FORMAT": "json"}
    environment = {**os.environ, **own, "SECRET_KEY": settings.secret_key, **overrides}
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "jobs.inbound"], env=environment, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
