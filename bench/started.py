"""Measures programs without their start: they print `ready`, wait for a line, work and print `done`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from bench.processes import ROOT, CaseFailure


def seconds_of(arguments: Sequence[str], environment: Mapping[str, str], processes: int = 1) -> float:
    """The seconds from the common start of so many processes of `python -m` to the end of the last."""
    with contextlib.ExitStack() as kept:
        started = [kept.enter_context(_process(arguments, environment)) for _ in range(processes)]
        _await(started, "ready")
        began = time.perf_counter()
        for process in started:
            print("go", file=process.stdin, flush=True)
        _await(started, "done")
        return time.perf_counter() - began


@contextlib.contextmanager
def _process(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdin=pipe, stdout=pipe, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _await(processes: Sequence[subprocess.Popen[str]], word: str) -> None:
    for process in processes:
        line = process.stdout.readline().strip() if process.stdout else ""
        if line != word:
            raise CaseFailure(f"{process.args!r} printed {line!r} instead of {word!r}")
