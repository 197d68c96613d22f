"""Process liveness: a locked file shows that its process is alive, from the moment it has its name."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.infrastructure import liveness
from app.infrastructure.liveness import (
    DRAFT,
    SUFFIX,
    create_locked,
    dead_processes,
    delete_stale_drafts,
    live_processes,
    process_name,
    registered_name,
)

PROGRAM = """
import pathlib, sys
from app.infrastructure.liveness import create_locked
create_locked(pathlib.Path(sys.argv[1]), b"its words")
print("made", flush=True)
sys.stdin.read()
"""


def test_a_file_is_alive_until_its_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / f"one{SUFFIX}"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "made\n"
        with dead_processes(tmp_path) as names:
            assert names == []
        assert live_processes(tmp_path) == [path]
        assert path.read_bytes() == b"its words"
        process.send_signal(signal.SIGKILL)
    assert live_processes(tmp_path) == []
    with dead_processes(tmp_path) as names:
        assert names == ["one"]
    assert list(tmp_path.iterdir()) == []


def test_a_process_has_one_name_everywhere_and_one_that_is_forked_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    liveness.register(tmp_path, "its database")
    assert registered_name(tmp_path / "leases") == process_name()
    assert [path.stem for path in tmp_path.rglob(f"*{SUFFIX}")] == [process_name()] * 2
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: 4_000_000)
        child = registered_name(tmp_path / "leases")
    assert child != process_name()
    assert {path.stem for path in (tmp_path / "leases").iterdir()} == {child, process_name()}


def test_a_file_under_creation_does_not_count_as_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file under creation is not locked yet. `Path.glob` finds names with a leading dot, too."""
    seen: list[list[str]] = []
    flock = fcntl.flock

    def look_first(descriptor: int, operation: int) -> None:
        monkeypatch.undo()
        with dead_processes(tmp_path) as names:
            seen.append(names)
        flock(descriptor, operation)

    monkeypatch.setattr("app.infrastructure.liveness.fcntl.flock", look_first)
    os.close(create_locked(tmp_path / f"one{SUFFIX}"))
    assert seen == [[]]
    assert (tmp_path / f"one{SUFFIX}").exists()


def test_unfinished_files_of_killed_processes_are_deleted(tmp_path: Path) -> None:
    old, new, other = (tmp_path / name for name in (f"a{SUFFIX}{DRAFT}", f"b{SUFFIX}{DRAFT}", "c"))
    for path in (old, new, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (0, 0))
    delete_stale_drafts(tmp_path)
    assert sorted(tmp_path.iterdir()) == [new, other]


def test_a_file_that_cannot_be_completed_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"taken{SUFFIX}").mkdir()
    (tmp_path / f"taken{SUFFIX}" / "in it").touch()
    with pytest.raises(OSError, match="directory"):
        create_locked(tmp_path / f"taken{SUFFIX}")
    assert [path.name for path in tmp_path.iterdir()] == [f"taken{SUFFIX}"]
