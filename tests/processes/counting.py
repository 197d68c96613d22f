"""A process that counts on command, for tests of shared counts."""

from __future__ import annotations

import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from app.infrastructure import metrics
from app.settings import from_environment

COUNTER = 'tms_recipient_outcomes_total{account_class="live",outcome="sent",type="email"}'


def main(data_dir: str) -> None:
    """Reads commands from standard input."""
    _share(data_dir)
    for line in sys.stdin:
        print(_answer(line.strip()), flush=True)


def count_on_command(line: Connection, data_dir: Path) -> None:
    """Reads commands from a connection, until it ends."""
    _share(str(data_dir))
    with suppress(EOFError):
        while True:
            line.send(_answer(line.recv()))


def _share(data_dir: str) -> None:
    metrics.share(from_environment({"DATA_DIR": data_dir}))


def _answer(command: str) -> str:
    if command == "write":
        assert metrics._shared is not None
        metrics._shared.write()
        return "written"
    if command == "show":
        return "".join(line for line in metrics.exposition().decode().splitlines() if line.startswith(COUNTER))
    metrics.OUTCOMES.labels("live", "email", "sent").inc(int(command))
    return "counted"
