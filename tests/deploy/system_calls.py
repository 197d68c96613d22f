"""The system calls that the sandbox of the units refuses (deploy/systemd), and a tracer that sees them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from functools import cache

from tests.support.deployment import SANDBOX

TRACE = "/tmp/trace"


def trace_calls(names: Iterable[str], file: str = TRACE) -> list[str]:
    """What writes these system calls of a program into a file. The program keeps its process id."""
    calls = ",".join(f"?{name}" for name in names)
    return ["strace", "-D", "-f", "-qq", "--signal=none", "-o", file, "-e", f"trace={calls}"]


@cache
def refused_calls() -> frozenset[str]:
    """The system calls that the sandbox of the units refuses, of those that systemd knows."""
    allowed: set[str] = set()
    for value in SANDBOX.values("Service", "SystemCallFilter"):
        if value.startswith("~"):
            allowed -= calls_of(value[1:])
        else:
            allowed |= calls_of(value)
    return frozenset(calls_of("@known") - allowed)


def calls_of(group: str) -> set[str]:
    """The system calls of a group, which may contain other groups."""
    completed = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager", group], capture_output=True, text=True, check=True
    )
    names = [
        line.strip() for line in completed.stdout.splitlines()[1:] if line.strip() and not line.strip().startswith("#")
    ]
    return {call for name in names for call in (calls_of(name) if name.startswith("@") else {name})}
