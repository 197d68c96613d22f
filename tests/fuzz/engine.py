"""Fuzzes one target with atheris, in a process of its own: libFuzzer ends its process when it is done."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import atheris

from tests.fuzz.growth import find_growth
from tests.fuzz.targets import LONGEST, Target

SLOWEST = 20
"""Seconds for one input, whose time does not matter otherwise: growth is looked for afterwards."""
MOST_MEMORY = 2048
"""MiB of a process."""
DONE = re.compile(r"Done (\d+) runs in (\d+) second")
COVERED = re.compile(r"cov: (\d+)")
RAISED = re.compile(r"=== Uncaught Python exception: ===\n(.*)")
REPORTED = re.compile(r"ERROR: libFuzzer: (.*)")
FOUND = re.compile(r"written to (\S+)")


@dataclass
class FuzzRun:
    """A target that is being fuzzed."""

    target: Target
    folder: Path
    pid: int
    began: float


@dataclass(frozen=True)
class Outcome:
    """What became of a target. `fault` says what is wrong, and is empty if nothing is."""

    target: Target
    inputs: int
    seconds: float
    covered: int
    corpus: int
    fault: str = ""


def start(target: Target, inputs: int, seed: int, folder: Path) -> FuzzRun:
    """Begins to fuzz a target. `folder` keeps its inputs between runs, the log, and what made it fail."""
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for first in target.seeds:
        (corpus / hashlib.sha1(first, usedforsecurity=False).hexdigest()).write_bytes(first)
    words = folder / "words.dict"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words if word), "ascii")
    options = [
        f"-runs={inputs}",
        f"-seed={seed}",
        f"-max_len={LONGEST}",
        f"-timeout={SLOWEST}",
        f"-rss_limit_mb={MOST_MEMORY}",
        f"-dict={words}",
        f"-artifact_prefix={folder}/",
    ]
    return FuzzRun(target, folder, _fork(lambda: _fuzz(target, options, corpus), folder / "log"), time.monotonic())


def finish(running: FuzzRun, status: int) -> Outcome:
    """The outcome of a process that has ended with a wait status; looks for growth in what it has found."""
    log = (running.folder / "log").read_text("utf-8", "replace")
    done, covered = DONE.search(log), COVERED.findall(log)
    return Outcome(
        running.target,
        int(done[1]) if done else 0,
        time.monotonic() - running.began,
        int(covered[-1]) if covered else 0,
        sum(1 for _ in (running.folder / "corpus").iterdir()),
        "" if done and os.waitstatus_to_exitcode(status) == 0 else _fault(running, log),
    )


def start_growth(running: FuzzRun, most: int | None) -> FuzzRun:
    """Begins to look for growth in the inputs that were found, or in `most` of them, the longest. What seems to grow is
    measured again after all others: other programs may have been busy for as long as a first measurement took."""
    corpus = sorted((running.folder / "corpus").iterdir(), key=lambda path: path.stat().st_size, reverse=True)[:most]

    def look() -> None:
        suspects = [path for path in corpus if find_growth(running.target, path.read_bytes())]
        for input_ in suspects:
            if grown := find_growth(running.target, input_.read_bytes()):
                print(f"{grown} written to {shutil.copy(input_, running.folder / 'grows')}")
                sys.exit(1)

    return FuzzRun(running.target, running.folder, _fork(look, running.folder / "growth"), running.began)


def fault_of_growth(running: FuzzRun, status: int) -> str:
    """What the process that looked for growth has found."""
    if os.waitstatus_to_exitcode(status) == 0:
        return ""
    return (running.folder / "growth").read_text("utf-8", "replace").strip() or "the search for growth failed"


def _fuzz(target: Target, options: list[str], corpus: Path) -> None:
    atheris.Setup([sys.argv[0], *options, str(corpus)], target.read)
    atheris.Fuzz()


def _fork(work: Callable[[], None], log: Path) -> int:
    """Does it in a child process, which has the code already imported, with all output in a file."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    logging.disable()
    try:
        work()
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(int(bool(end.code)))
    sys.stdout.flush()
    os._exit(0)


def _fault(running: FuzzRun, log: str) -> str:
    """What was raised, or what libFuzzer says of it, and where the input is."""
    raised, reported, input_match = RAISED.search(log), REPORTED.search(log), FOUND.search(log)
    what = raised[1] if raised else reported[1] if reported else "the process ended"
    return f"{what} (input: {input_match[1] if input_match else running.folder / 'log'})"


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)
