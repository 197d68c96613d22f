"""Fuzzes the readers, several at the same time, and prints a table."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import atheris

assert not any(name.startswith("app.") for name in sys.modules), "code that was imported before is not instrumented"
INSTRUMENTED = ["app", "schemas", "tests.fuzz.planted"]
with contextlib.redirect_stderr(io.StringIO()), atheris.instrument_imports(include=INSTRUMENTED):
    from tests.fuzz.engine import FuzzRun, Outcome, fault_of_growth, finish, start, start_growth
    from tests.fuzz.planted import PLANTED
    from tests.fuzz.targets import MANY, Target, targets

FOLDER = Path("var/fuzz")
SHORT = 1_500
"""Inputs in the short form, of the targets that get the most."""
SHORT_GROWTH = 20
"""Inputs of each target that the short form searches for growth."""
KNOWN = targets()


def fuzz(names: Iterable[str], seed: int, jobs: int, *, inputs: int | None, short: bool) -> bool:
    """Fuzzes these targets; whether none has a fault."""
    chosen = [KNOWN[name] for name in names]
    if short:
        chosen = [target for target in chosen if target.inputs == MANY]
    if inputs := inputs or (SHORT if short else 0):
        chosen = [replace(target, inputs=inputs) for target in chosen]
    return _finds_what_is_planted(seed) and _fuzz(chosen, seed, jobs, SHORT_GROWTH if short else None)


def _finds_what_is_planted(seed: int) -> bool:
    """Whether a reader that fails and one whose time grows are both found."""
    with tempfile.TemporaryDirectory() as folder:
        missed = [
            outcome.target.name for outcome in _outcomes(PLANTED, seed, len(PLANTED), Path(folder)) if not outcome.fault
        ]
    for name in missed:
        print(f"{name} was planted, and NOT FOUND")
    return not missed


def _fuzz(chosen: Iterable[Target], seed: int, jobs: int, searched: int | None) -> bool:
    print(
        "| target | inputs | seconds | branches | corpus | fault |\n| --- | --- | --- | --- | --- | --- |", flush=True
    )
    faults: list[str] = []
    for outcome in _outcomes(chosen, seed, jobs, FOLDER, searched):
        if outcome.fault:
            faults.append(f"{outcome.target.name}: {outcome.fault}")
        figures = f"{outcome.inputs:,} | {outcome.seconds:.0f} | {outcome.covered} | {outcome.corpus}"
        print(f"| {outcome.target.name} | {figures} | {outcome.fault or 'none'} |", flush=True)
    print("\n".join(["FAULTS:", *faults]) if faults else "no target has a fault")
    return not faults


def _outcomes(
    chosen: Iterable[Target], seed: int, jobs: int, folder: Path, searched: int | None = None
) -> Iterator[Outcome]:
    """Fuzzes the targets, so many at the same time; of each, all inputs that were found are then searched for growth,
    or the `searched` longest."""
    waiting, fuzzing, growing = list(chosen), dict[int, FuzzRun](), dict[int, tuple[FuzzRun, Outcome]]()
    while waiting or fuzzing or growing:
        while waiting and len(fuzzing) + len(growing) < jobs:
            target = waiting.pop(0)
            running = start(target, target.inputs, seed, folder / target.key)
            fuzzing[running.pid] = running
        pid, status = os.wait()
        if running_then := fuzzing.pop(pid, None):
            outcome = finish(running_then, status)
            if outcome.fault:
                yield outcome
                continue
            search = start_growth(running_then, searched)
            growing[search.pid] = (search, outcome)
        elif pid in growing:
            search, outcome = growing.pop(pid)
            yield replace(outcome, fault=fault_of_growth(search, status))
