"""`make chaos`: each fault on each database, a table at the end, and exit status 1 after a violated guarantee."""

from __future__ import annotations

import argparse
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

from tests.chaos import (
    faults,
    faults_of_clocks,
    faults_of_commands,
    faults_of_databases,
    faults_of_machines,
    faults_of_operators,
    table,
)
from tests.chaos.broken.breaks import BREAKS
from tests.chaos.check import Result
from tests.chaos.disk import can_mount
from tests.chaos.promises import TIMES
from tests.chaos.registry import FAULTS, Fault
from tests.chaos.round import Plan, run
from tests.support.chosen import add_database_options, chosen_databases, chosen_names
from tests.support.postgres_process import PostgresProcess, postgres_process

ALL = (faults, faults_of_databases, faults_of_machines, faults_of_clocks, faults_of_operators, faults_of_commands)
"""The modules that register faults."""
SHORT = ("kill-everything",)
"""In the short form, which runs on all databases at once."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="the seed of an earlier run, to repeat its timing")
    parser.add_argument("--only", metavar="FAULT,…", help="only these faults; see --list")
    parser.add_argument("--rounds", type=int, default=1, help="of each fault")
    add_database_options(parser)
    parser.add_argument(
        "--short",
        action="store_true",
        help=f"only {' and '.join(SHORT)}, on both databases at once, whatever the times: what CI runs",
    )
    parser.add_argument(
        "--broken", action="store_true", help="run builds that are broken on purpose; each must be detected"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="folder for the logs of failed rounds")
    parser.add_argument(
        "--figures", type=Path, metavar="FILE", help="keep the figures there, and print the table of all that it has"
    )
    parser.add_argument(
        "--list", action="store_true", help="name the faults with the promises that they try to break, or the builds"
    )
    options = parser.parse_args(arguments)
    all_names = BREAKS if options.broken else FAULTS
    options.names = chosen_names(parser, options.only, all_names, SHORT if options.short else None)
    return options


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that its children are terminated, too
    if options.list:
        print("\n".join(map(_listed, options.names)))
        return 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    databases = chosen_databases(options)
    with postgres_process() if "postgresql" in databases else nullcontext() as postgres:
        servers = [postgres if name == "postgresql" else None for name in databases]
        plans = (_broken if options.broken else _sound)(options, servers, seed)
        if options.broken:
            return _find(plans)
        with ThreadPoolExecutor(len(servers)) as pool:
            rounds = pool.map(_round, plans) if options.short else map(_round, plans)
            return _hold(rounds, options.figures)


def _listed(name: str) -> str:
    """A line with the name, and the promises that the fault tries to break or the check that must find the build."""
    promises = [BREAKS[name].shows] if name in BREAKS else FAULTS[name].tries
    return f"{name:<30} {'; '.join(promises)}"


def _sound(options: argparse.Namespace, servers: Sequence[PostgresProcess | None], seed: int) -> Iterator[Plan]:
    for name in options.names:
        for postgres in servers:
            for number in range(options.rounds):
                plan = Plan(FAULTS[name], postgres, seed + number, keep=options.keep, short=options.short)
                if _is_possible(plan.fault, plan.database):
                    yield plan


def _is_possible(fault: Fault, database: str) -> bool:
    if fault.setup.small_disk and not can_mount():
        print(f"{fault.name} is skipped: it needs root and a system that allows mounting a tmpfs", flush=True)
        return False
    return fault.only in ("", database)


def _broken(options: argparse.Namespace, servers: Sequence[PostgresProcess | None], seed: int) -> Iterator[Plan]:
    for name in options.names:
        fault = FAULTS[BREAKS[name].fault]
        for postgres in servers:
            plan = Plan(fault, postgres, seed, broken=name, keep=options.keep)
            if fault.only in ("", plan.database):
                yield plan


def _round(plan: Plan) -> tuple[Plan, Result]:
    return plan, run(plan)


def _hold(rounds: Iterator[tuple[Plan, Result]], figures: Path | None) -> int:
    """Sound builds keep their guarantees."""
    rows, kept = [], True
    for plan, result in rounds:
        rows.append(table.row(plan.fault.name, plan.database, result))
        kept = kept and not result.broken
        if figures:
            table.keep(figures, plan.fault.name, plan.database, plan.seed, result)
        print(table.lines(rows[-1:])[-1], *(f"  {complaint}" for complaint in result.broken), sep="\n", flush=True)
    print("", *(table.page(figures, FAULTS) if figures else table.lines(rows)), sep="\n")
    print("all guarantees were kept" if kept else "guarantees were VIOLATED")
    return 0 if kept else 1


def _find(plans: Iterator[Plan]) -> int:
    """Broken builds are found, by what is broken about them and by nothing else."""
    rows, found_all = [], True
    for plan in plans:
        result, build = run(plan), BREAKS[plan.broken or ""]
        others = sorted(result.violated - {build.shows, *build.beside} - TIMES)
        is_found = build.shows in result.violated and not others
        found_all = found_all and is_found
        verdict = (
            build.shows if is_found else "NOT FOUND" if not others else f"found SOMETHING ELSE: {', '.join(others)}"
        )
        rows.append((plan.broken or "", plan.fault.name, plan.database, verdict))
        print(" | ".join(rows[-1]), *(f"  {complaint}" for complaint in result.broken), sep="\n", flush=True)
    print("", *table.lines(rows, ("build", "fault", "database", "found")), sep="\n")
    print("each broken build was found" if found_all else "a broken build was NOT FOUND")
    return 0 if found_all else 1


if __name__ == "__main__":
    sys.exit(main())
