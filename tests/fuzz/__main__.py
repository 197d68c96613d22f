"""`make fuzz`: tries very many inputs on what reads the texts of others; exit status 1 after a fault."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import atheris

INSTRUMENTED = ["app", "schemas", "tests.fuzz.planted"]
with contextlib.redirect_stderr(io.StringIO()), atheris.instrument_imports(include=INSTRUMENTED):
    from tests.fuzz.engine import Outcome, Running, fault_of_growth, finish, start, start_growth
    from tests.fuzz.planted import PLANTED
    from tests.fuzz.targets import MANY, Target, targets

FOLDER = Path("var/fuzz")
SHORT = 10_000
"""Inputs in the short form, of the targets that get the most."""


def parse(known: Sequence[str], arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--only", metavar="TARGET,…", help="only these targets; see --list")
    parser.add_argument("--inputs", type=int, help="for each target, instead of 1,000,000 or 100,000")
    parser.add_argument("--seed", type=int, help="the seed of an earlier run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at the same time")
    parser.add_argument("--short", action="store_true", help=f"{SHORT:,} inputs of the main targets: what CI runs")
    parser.add_argument("--list", action="store_true", help="name the targets")
    options = parser.parse_args(arguments)
    options.names = options.only.split(",") if options.only else list(known)
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"there is no {', '.join(unknown)}; --list names all")
    return options


def main() -> int:
    known = targets()
    options = parse(list(known))
    if options.list:
        print(*(f"{key}  {target.inputs:,}" for key, target in known.items()), sep="\n")
        return 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1, 2**31)
    chosen = [known[name] for name in options.names]
    if options.short:
        chosen = [target for target in chosen if target.inputs == MANY]
    if inputs := options.inputs or (SHORT if options.short else 0):
        chosen = [replace(target, inputs=inputs) for target in chosen]
    print(f"seed {seed}", flush=True)
    return 0 if _finds_what_is_planted(seed) and _fuzz(chosen, seed, options.jobs) else 1


def _finds_what_is_planted(seed: int) -> bool:
    """Whether a reader that fails and one whose time grows are both found."""
    with tempfile.TemporaryDirectory() as folder:
        missed = [one.target.name for one in _outcomes(PLANTED, seed, len(PLANTED), Path(folder)) if not one.fault]
    for name in missed:
        print(f"{name} was planted, and NOT FOUND")
    return not missed


def _fuzz(chosen: Iterable[Target], seed: int, jobs: int) -> bool:
    print(
        "| target | inputs | seconds | branches | corpus | fault |\n| --- | --- | --- | --- | --- | --- |", flush=True
    )
    faults = 0
    for one in _outcomes(chosen, seed, jobs, FOLDER):
        faults += bool(one.fault)
        figures = f"{one.inputs:,} | {one.seconds:.0f} | {one.covered} | {one.corpus}"
        print(f"| {one.target.name} | {figures} | {one.fault or 'none'} |", flush=True)
    print(f"{faults} targets have FAULTS" if faults else "no target has a fault")
    return not faults


def _outcomes(chosen: Iterable[Target], seed: int, jobs: int, folder: Path) -> Iterator[Outcome]:
    """Fuzzes the targets, so many at the same time; each is then searched for growth."""
    waiting, fuzzing, growing = list(chosen), dict[int, Running](), dict[int, tuple[Running, Outcome]]()
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
            search = start_growth(running_then)
            growing[search.pid] = (search, outcome)
        elif pid in growing:
            search, outcome = growing.pop(pid)
            yield replace(outcome, fault=fault_of_growth(search, status))


if __name__ == "__main__":
    sys.exit(main())
