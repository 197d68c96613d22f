"""Process liveness: a locked file shows that its process is alive, from the moment it has its name."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.infrastructure import liveness
from app.infrastructure.liveness import (
    DRAFT,
    SUFFIX,
    boot_id,
    create_locked,
    dead_processes,
    delete_stale_drafts,
    live_processes,
    lock_if_dead,
    new_process_name,
    process_name,
    processes,
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


EARLIER_BOOT = "0123456789ab"


def name_of(boot: str, host: str = "host") -> str:
    return f"{host}-1-{boot}0a1b2c3d"


def test_a_name_has_the_id_of_the_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = liveness.BOOT_ID_FILE.read_text("ascii").replace("-", "")
    assert len(boot_id()) == 12
    assert kernels.startswith(boot_id())
    assert re.fullmatch(
        rf"{re.escape(socket.gethostname())}-{os.getpid()}-{boot_id()}[0-9a-f]{{8}}", new_process_name()
    )
    monkeypatch.setattr(liveness, "boot_id", lambda: "")  # a kernel that has none
    assert re.fullmatch(rf"{re.escape(socket.gethostname())}-{os.getpid()}-[0-9a-f]{{8}}", new_process_name())


@pytest.mark.parametrize(
    ("name", "dead"),
    [
        (name_of(EARLIER_BOOT), True),
        (f"{name_of(EARLIER_BOOT)}.background", True),
        (name_of(boot_id()), False),
        (f"{name_of(boot_id())}.background", False),
        (name_of(""), False),  # that of an earlier release
        (f"{EARLIER_BOOT}01234567-1-{boot_id()}0a1b2c3d", False),  # a host that is called like that
    ],
)
def test_a_file_of_an_earlier_boot_is_dead_whatever_its_lock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, *, dead: bool
) -> None:
    """A lock that is held may be a remnant; the process ended with its boot."""
    descriptor = create_locked(tmp_path / f"{name}{SUFFIX}")
    with dead_processes(tmp_path) as names:
        assert names == ([name] if dead else [])
    assert list(tmp_path.iterdir()) == ([] if dead else [tmp_path / f"{name}{SUFFIX}"])
    os.close(descriptor)
    monkeypatch.setattr("app.infrastructure.liveness.fcntl.flock", no_locks)
    (tmp_path / f"{name}{SUFFIX}").touch()
    with dead_processes(tmp_path) as names:
        assert names == ([name] if dead else [])


def no_locks(_descriptor: int, _operation: int) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def test_a_file_that_has_disappeared_shows_nothing(tmp_path: Path) -> None:
    with ExitStack() as locks:
        assert not lock_if_dead(tmp_path / f"{name_of(EARLIER_BOOT)}{SUFFIX}", locks)


def test_processes_of_this_and_of_the_earlier_release_are_found(tmp_path: Path) -> None:
    """An upgrade replaces processes whose names have no boot id."""
    (tmp_path / "processes").mkdir()
    host = socket.gethostname()
    files = [f"{name_of('', host)}.web", f"{name_of(boot_id(), host)}.background", name_of(boot_id(), host)]
    descriptors = [create_locked(tmp_path / "processes" / f"{name}{SUFFIX}") for name in files]
    assert [(process.pid, process.role) for process in processes(tmp_path)] == [(1, ""), (1, "background"), (1, "web")]
    for descriptor in descriptors:
        os.close(descriptor)
