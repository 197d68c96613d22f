"""The process that receives inbound mail: `python -m jobs.inbound`."""

from __future__ import annotations

import signal
import smtplib
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.tracking.return_path import return_path
from tests.jobs.running import Alone, alone
from tests.support.mail_reports import delivery_failure
from tests.support.rows import FROM, Rows
from tests.support.servers import PATIENCE

COMMAND = [sys.executable, "-m", "jobs.inbound"]


@contextmanager
def started(parts: Alone, **overrides: str) -> Iterator[subprocess.Popen[str]]:
    """The process with the settings of `parts`; killed if it does not end by itself."""
    settings = parts.services.settings
    own = {"DATA_DIR": str(settings.data_dir), "DATABASE_URL": settings.database_url, "LOG_FORMAT": "json"}
    environment = {**own, "SECRET_KEY": settings.secret_key, **overrides}
    with subprocess.Popen(COMMAND, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> str:
    """The first line after the one about the database and the transports."""
    assert process.stderr is not None
    assert "using the database" in process.stderr.readline()
    return process.stderr.readline()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_accepts_a_report_and_ends_when_asked(number: signal.Signals) -> None:
    """It does not wait for the end of an open connection."""
    port = free_port()
    with alone(None) as parts, started(parts, INBOUND_LISTEN=f"127.0.0.1:{port}") as process:
        rows = Rows(parts.services, parts.tenant.id)
        (recipient_id,) = rows.add_send(["ann@example.com"])
        rows.change([recipient_id], state="delivered", attempts=1)
        to = return_path(parts.services.settings, recipient_id, FROM)
        assert "listening" in first_line(process)
        with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client:
            assert client.sendmail("<>", [to], delivery_failure(to, "ann@example.com")) == {}
            assert rows.recipient(recipient_id).state == "bounced"
            process.send_signal(number)
            assert process.wait(PATIENCE) == 0


def test_without_the_setting_it_waits_for_a_signal() -> None:
    """So a process manager can always start it."""
    with alone(None) as parts, started(parts) as process:
        assert "INBOUND_LISTEN is not set" in first_line(process)
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_a_port_in_use_is_reported_in_one_line() -> None:
    with alone(None) as parts, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with started(parts, INBOUND_LISTEN=f"127.0.0.1:{taken.getsockname()[1]}") as process:
            assert process.wait(PATIENCE) == 1
            assert first_line(process).startswith("INBOUND_LISTEN: cannot listen there: ")
            assert process.stderr is not None
            assert not process.stderr.read()
