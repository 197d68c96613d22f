"""Starts and ends processes under measurement, and reads their processor time and memory."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLOCK_OF_PROCESS = 2
"""The kind of clock in the lowest bits of a Linux clock id whose other bits name a process (clock_getcpuclockid)."""
GRACE = 15.0


class CaseFailure(Exception):
    """The case has no result: an answer was wrong, or a process did not start or did not do its part."""


class UnevenLoad(CaseFailure):
    """The load did not reach all processes."""


@contextlib.contextmanager
def running(name: str, arguments: Sequence[str], environment: Mapping[str, str], logs: Path) -> Iterator[int]:
    """Runs `python arguments` in the project's folder during the block; returns its process id."""
    log_file = logs / f"{name}.log"
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process.pid
        if process.poll() is not None:
            raise CaseFailure(f"{name} ended too early; its log: {log_file.read_text()[-2000:]}")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 30.0, pause: float = 0.01) -> None:
    """Waits until the condition holds. Raises `CaseFailure` after that many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise CaseFailure(f"waited {seconds:g} s in vain for this: {what}")
        time.sleep(pause)


def listens(port: int) -> bool:
    """Whether a process listens on this port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def children(pid: int) -> list[int]:
    """The living processes that a process has started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has taken, in user and in kernel mode.

    It is read from the clock of the process, in microseconds: /proc/PID/stat counts hundredths of a second, which is
    too coarse for a short round. Raises OSError if the process has ended.
    """
    return time.clock_gettime(~pid << 3 | CLOCK_OF_PROCESS)


def resident_bytes(pid: int) -> int:
    """The resident memory of a process, shared memory included."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise CaseFailure(f"process {pid} has ended")


@contextlib.contextmanager
def all_busy(pids: Sequence[int], what: str) -> Iterator[None]:
    """Raises `UnevenLoad` if one of the processes was idle in the block while others worked."""
    before = {pid: cpu_seconds(pid) for pid in pids}
    yield
    spent = [cpu_seconds(pid) - before[pid] for pid in pids]
    if min(spent) < 0.1 * max(spent):
        raise UnevenLoad(f"{what}: the load did not reach all processes (seconds of work: {spent})")
