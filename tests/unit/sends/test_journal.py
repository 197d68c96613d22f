"""The journal keeps its results when the disk cuts a line short."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.infrastructure.liveness import create_locked
from app.sends.outcomes.attempt_result import AttemptResult, Journal, parse_line, scan_journals
from app.transports.base import DeliveryResult, Untaken
from tests.support.servers import PATIENCE


def attempt_result(number: int) -> AttemptResult:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    return AttemptResult(number, 1, f"person{number}@example.com", moment, DeliveryResult.accepted("250 ok"))


def recipients(folder: Path) -> list[int]:
    with scan_journals(folder) as journals:
        return [result.recipient_id for journal in journals for result in journal.results()]


# A limit of the file size makes the system write less than requested, as a full disk does.
SHORT_WRITE = """
import pathlib, resource, sys
from app.sends.outcomes.attempt_result import Journal
from tests.unit.sends.test_journal import attempt_result

def limit(bytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, resource.RLIM_INFINITY))

folder = pathlib.Path(sys.argv[1])
journal = Journal(folder, "worker")
journal.append(attempt_result(1))
size = (folder / "worker.journal").stat().st_size
for number, room in ((2, 20), (3, 0)):
    limit(size + room)
    try:
        journal.append(attempt_result(number))
    except OSError as error:
        print(error.strerror)
limit(resource.RLIM_INFINITY)
journal.append(attempt_result(4))
journal.append(attempt_result(5))
"""


def test_a_truncated_line_loses_no_other_line(tmp_path: Path) -> None:
    """The caller gets an error, and the next result begins a new line."""
    command = [sys.executable, "-c", SHORT_WRITE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.splitlines() == ["File too large"] * 2
    assert recipients(tmp_path) == [1, 4, 5]


def test_a_partial_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, write = Journal(tmp_path, "worker"), os.write
    monkeypatch.setattr("app.infrastructure.liveness.os.write", lambda descriptor, data: write(descriptor, data[:7]))
    for number in range(3):
        journal.append(attempt_result(number))
    journal.close()
    assert recipients(tmp_path) == [0, 1, 2]


def test_after_clearing_it_begins_with_a_whole_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "worker")
    journal.append(attempt_result(1))
    journal.clear()
    journal.append(attempt_result(2))
    assert (tmp_path / "worker.journal").read_bytes() == attempt_result(2).line()
    journal.close()
    assert recipients(tmp_path) == [2]


def test_results_that_are_not_in_the_database_outlast_its_clearing(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "worker")
    for number in range(6):
        journal.append(attempt_result(number))
    journal.clear({3, 5, 6})
    journal.append(attempt_result(6))
    journal.close()
    assert recipients(tmp_path) == [3, 5, 6]


# A limit of the file size kills a process at the byte that it may not write any more.
KILLED_AT_BYTE = """
import os, pathlib, resource, signal, sys
from app.sends.outcomes.attempt_result import Journal
from tests.unit.sends.test_journal import attempt_result, recipients

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
numbers, byte, status = (1, 10**9), -1, signal.SIGXFSZ
while status == signal.SIGXFSZ:
    byte += 1
    folder = pathlib.Path(sys.argv[1], str(byte))
    child = os.fork()
    if not child:
        journal = Journal(folder, "worker")
        for number in numbers:
            journal.append(attempt_result(number))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (byte, resource.RLIM_INFINITY))
        journal.clear({10**9})
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if 10**9 not in recipients(folder):
        print("lost by a kill at byte", byte)
print("killed at each of", byte, "bytes, then", status)
"""


def test_a_kill_while_it_is_cleared_loses_no_result(tmp_path: Path) -> None:
    """At whichever byte of the result that stays, though it is longer than the one that is removed before it."""
    command = [sys.executable, "-c", KILLED_AT_BYTE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    size = len(attempt_result(10**9).line())
    assert done.stdout.splitlines() == [f"killed at each of {size} bytes, then 0"]


def test_a_journal_that_is_cleared_while_another_process_looks_at_it_does_not_count_as_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process has opened the file that is replaced, whose lock then is free."""
    journal, flock = Journal(tmp_path, "worker"), fcntl.flock
    for number in range(2):
        journal.append(attempt_result(number))

    def clear_first(descriptor: int, operation: int) -> None:
        monkeypatch.undo()
        journal.clear({1})
        flock(descriptor, operation)

    monkeypatch.setattr("app.infrastructure.liveness.fcntl.flock", clear_first)
    with scan_journals(tmp_path) as (looked_at,):
        assert not looked_at.dead
    journal.close()
    assert recipients(tmp_path) == [1]


def test_malformed_lines_are_skipped(tmp_path: Path) -> None:
    lines = [b"", b"{", b"12", b"[]", b"null", b'{"recipient_id": 1}', attempt_result(7).line()[:-20], b"\xff\xfe"]
    (tmp_path / "dead.journal").write_bytes(b"\n".join([*lines, attempt_result(8).line()]))
    assert recipients(tmp_path) == [8]


def test_a_journal_under_creation_does_not_count_as_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a journal appears before its lock."""
    seen: list[list[str]] = []
    flock = fcntl.flock

    def look_first(descriptor: int, operation: int) -> None:
        monkeypatch.undo()
        with scan_journals(tmp_path) as journals:
            seen.append([journal.worker for journal in journals])
        flock(descriptor, operation)

    monkeypatch.setattr("app.infrastructure.liveness.fcntl.flock", look_first)
    create_locked(tmp_path / "worker.journal")
    assert seen == [[]]
    assert (tmp_path / "worker.journal").exists()


@pytest.mark.parametrize(
    "result",
    [
        *(DeliveryResult.refused("550 5.1.1 nobody", "5.1.1", about_sender=about) for about in (True, False)),
        *(DeliveryResult.deferred("451 4.3.2 later", "4.3.2", untaken=untaken) for untaken in (*Untaken, None)),
    ],
)
def test_a_failure_that_is_not_about_the_address_is_read_back_as_one(result: DeliveryResult) -> None:
    """If the difference were lost, it would count against the address after its worker died."""
    written = attempt_result(1)._replace(result=result)
    assert parse_line(written.line()) == written
