"""Idempotency locks as other processes of the machine see them (app/http/idempotency.py)."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.http.idempotency import DEAD_FILE_SECONDS, IdempotencyLocks, idempotency_locks
from tests.support.servers import wait_until


def ended_elsewhere(folder: Path, *holders: str) -> list[str]:
    """What another process sees."""
    program = "import sys, pathlib; from app.http.idempotency import idempotency_locks as r\n"
    program += "print(*(r(pathlib.Path(sys.argv[1])).has_ended(one) for one in sys.argv[2:]))"
    command = [sys.executable, "-c", program, str(folder), *holders]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_a_request_is_locked_until_its_end_in_all_processes(tmp_path: Path) -> None:
    locks = idempotency_locks(tmp_path)
    assert locks is idempotency_locks(tmp_path)
    with locks.acquire() as first, locks.acquire() as second:
        assert first != second
        with locks.acquire() as third:
            assert [locks.has_ended(holder) for holder in (first, second, third)] == [False] * 3
        assert [locks.has_ended(holder) for holder in (first, second, third)] == [False, False, True]
        assert ended_elsewhere(tmp_path, first, second, third) == ["False", "False", "True"]
    assert [locks.has_ended(holder) for holder in (first, second, third)] == [True] * 3


@pytest.mark.parametrize("holder", ["", ":", "7", "elsewhere-1-ab:1", "../x:1", "x:-1", "x:one"])
def test_the_state_of_a_request_of_another_machine_is_unknown(tmp_path: Path, holder: str) -> None:
    assert IdempotencyLocks(tmp_path).has_ended(holder) is None


def test_requests_work_although_the_folder_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file stands where the folder would be")
    locks = IdempotencyLocks(tmp_path / "blocked")
    with locks.acquire() as holder:
        assert locks.has_ended(holder) is False
    assert locks.has_ended(holder) is True


PAUSED_BEFORE_ITS_LOCK = """
import pathlib, sys
from app.http.idempotency import idempotency_locks

def pause(event, arguments):
    if event == "fcntl.lockf" and arguments[3] == 0:
        print(flush=True)
        input()

sys.addaudithook(pause)
with idempotency_locks(pathlib.Path(sys.argv[1])).acquire() as holder:
    print(holder, flush=True)
    input()
"""
"""A process that waits for its test between the creation of its file and the lock of that."""


def test_a_process_gets_its_lock_although_another_one_looks_at_its_new_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PAUSED_BEFORE_ITS_LOCK, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        (path,) = tmp_path.iterdir()
        with path.open("r+b") as looked_at:
            fcntl.lockf(looked_at, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            print(file=process.stdin, flush=True)
            wait_until(lambda: waits_for_a_lock(process.pid), "it waits for the lock")
        holder = process.stdout.readline().strip()
        assert IdempotencyLocks(tmp_path).has_ended(holder) is False
        print(file=process.stdin, flush=True)
    assert IdempotencyLocks(tmp_path).has_ended(holder) is True


def waits_for_a_lock(pid: int) -> bool:
    rows = [row.split() for row in Path("/proc/locks").read_text().splitlines()]
    return any(row[1] == "->" and row[5] == str(pid) for row in rows)


def test_files_of_dead_processes_are_deleted_after_an_hour(tmp_path: Path) -> None:
    """Counted from the first time they are found dead: until then a claim of a long-lived process may be new."""
    program = f"from app.http.idempotency import *; idempotency_locks(Path({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", program], check=True)
    (dead,) = tmp_path.iterdir()
    make_old(dead)
    first = IdempotencyLocks(tmp_path)
    assert dead.exists()
    assert dead.stat().st_size == 1
    make_old(dead)
    second = IdempotencyLocks(tmp_path)
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted([first.name, second.name])


def make_old(path: Path) -> None:
    os.utime(path, (path.stat().st_mtime - DEAD_FILE_SECONDS - 1,) * 2)
